"""Every sentence under "What is promised" in SECURITY.md has tests that hold it, and they exist."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.proves("WB-9")

ROOT = Path(__file__).resolve().parents[2]
_ESCAPES = "integration/sandbox/test_escapes.py"
_POLICY = "unit/domain/policy"
_OBEDIENT = "integration/policy"
_CHANNELS = "unit/application/channels"
_MEMORY = "unit/application/memory"
_NODE = "unit/application/node/test_serve_commands.py"

HELD_BY: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "You know the level": {
        "Every run says in its first line": (
            "e2e/cli/test_box_level.py::test_a_run_says_its_level_before_anything_else",
            "e2e/models/test_models.py::test_a_healthy_machine_can_run_a_task_and_nothing_was_started_or_sent",
            "integration/http/test_runs.py::test_health_tells_version_sandbox_and_how_many_runs_there_are",
            "e2e/cli/test_approvals.py::"
            "test_without_a_terminal_the_run_waits_with_exit_code_three_and_says_how_to_answer",
        ),
        "A level that you name": (
            "integration/sandbox/test_levels.py::"
            "test_a_level_that_is_named_and_does_not_work_is_an_error_and_never_lowered",
        ),
    },
    "Commands stay in their box": {
        "At the levels A, A+ and B": (
            f"{_ESCAPES}::test_nothing_gets_out_and_what_people_need_works",
            f"{_ESCAPES}::test_nothing_gets_out_of_a_container",
            f"{_ESCAPES}::test_nor_where_root_has_only_the_rights_it_has_in_a_container",
            "integration/sandbox/test_fresh_attempts.py::"
            "test_a_box_holds_against_fresh_attempts_but_for_the_gaps_that_the_page_names",
            "integration/egress/test_proxy.py::test_the_loopback_port_wants_its_password",
        ),
    },
    "Without a box, all but reading in the workspace asks": {
        "At level C a command runs unasked only if": (
            f"{_POLICY}/test_readings.py::test_without_a_box_reading_outside_of_the_workspace_asks",
            f"{_POLICY}/test_read_only.py::test_without_a_wall_everything_that_does_not_only_read_asks_whatever_the_policy_says",
            "integration/sandbox/test_reading_starts_nothing.py::test_no_option_of_a_reading_program_starts_another_or_writes",
        ),
        "A run that nobody watches": (
            f"{_POLICY}/test_rules.py::test_a_run_that_nobody_watches_has_no_shell_where_there_is_no_box",
            f"{_POLICY}/test_unread_lines.py::test_an_unattended_run_without_a_box_has_no_shell_for_it_either",
        ),
    },
    "File tools stay in the workspace": {
        "They open nothing outside it": (
            "unit/infrastructure/sandbox/test_beneath.py::test_no_path_opens_anything_outside",
            "unit/infrastructure/sandbox/test_beneath.py::test_a_link_that_leads_out_is_neither_followed_nor_replaced",
            "integration/sandbox/test_file_tool_races.py::test_thousands_of_reads_and_changes_leak_nothing",
        ),
        "An attempt is refused and recorded": (
            "e2e/outcomes/test_outcomes.py::test_reaching_out_of_the_box_is_an_error_and_a_security_event",
        ),
    },
    "Keys stay out of files and logs": {
        "The configuration takes references": (
            "unit/config/test_schema.py::test_a_key_itself_is_refused_and_never_repeated",
            "unit/config/test_secrets.py::test_references_are_known_alone_and_behind_a_word",
        ),
        "The log holds the reference": (
            "e2e/outcomes/test_outcomes.py::test_key_is_sent_and_appears_in_no_event_and_no_file",
            "integration/secrets/test_references_in_use.py::"
            "test_a_value_is_kept_out_of_events_and_of_the_log_from_its_first_use_on",
        ),
        "Commands, tool servers and the browser": (
            "integration/sandbox/test_unconfined.py::test_a_command_sees_no_keys_or_tokens",
            f"{_ESCAPES}::test_nothing_gets_out_and_what_people_need_works",
            "integration/mcp/test_confinement.py::"
            "test_a_server_sees_neither_the_home_folder_nor_secrets_nor_other_processes",
            "integration/browser/test_browser.py::test_a_launch_has_a_profile_of_its_own_and_an_empty_environment",
        ),
    },
    "Cloud only by your word": {
        "Requests go to the `base_url`": (
            "e2e/cli/test_connections.py::test_a_run_connects_to_its_model_and_nothing_is_reported_to_anyone",
        ),
        "No redirect carries": (
            "integration/test_model_client.py::test_key_is_not_carried_to_another_host_by_a_redirect",
            "integration/test_model_client.py::test_conversation_is_not_carried_to_another_host_by_a_redirect",
        ),
    },
    "No telemetry": {
        "Nothing is reported": (
            "e2e/cli/test_connections.py::test_a_run_connects_to_its_model_and_nothing_is_reported_to_anyone",
        ),
    },
    "Models and tools cannot steer your terminal": {
        "Control characters in what they write": (
            "e2e/cli/test_cli.py::test_a_model_cannot_steer_the_terminal",
            "e2e/cli/test_diff_and_undo.py::test_a_terminal_is_not_steered_by_what_a_run_wrote",
            "unit/interfaces/cli/runs/test_transcript.py::test_every_kind_of_event_has_lines_without_control_characters",
        ),
        "`logs show` and `--json`": ("e2e/cli/test_cli.py::test_a_log_cannot_steer_the_terminal_with_c1_codes",),
    },
    "Tool output never gains authority": {
        "It reaches the model with the role `tool`": (
            "unit/application/test_engine_on_stand_ins.py::test_observations_have_the_role_tool",
        ),
    },
    "What matters asks": {
        "Unless you have written a rule": (
            f"{_POLICY}/test_workspace_profile.py::test_what_deploys_pushes_or_publishes_waits_for_a_person",
            f"{_POLICY}/test_shell_escapes.py::test_a_push_inside_of_another_program_asks",
        ),
        "After a run has read untrusted text": (
            f"{_POLICY}/test_workspace_profile.py::test_after_untrusted_text_what_sends_asks_and_names_the_source",
            "unit/application/test_untrusted_text.py::"
            "test_a_run_that_has_read_a_page_asks_before_it_sends_and_the_card_names_the_page",
        ),
        "What was agreed to runs once": (
            "unit/application/approvals/test_asking_a_person.py::"
            "test_an_approved_call_runs_once_and_the_log_says_who_agreed",
            "unit/application/approvals/test_asking_a_person.py::test_an_agreement_to_one_call_covers_no_other",
        ),
        "No run answers a question": (
            "integration/http/test_no_run_answers.py::test_a_request_on_behalf_of_a_run_answers_nothing_at_any_door",
            "integration/http/test_no_run_answers.py::test_a_process_of_a_run_answers_nothing_whatever_it_shows",
            "integration/http/test_no_run_answers.py::test_every_route_that_answers_is_known",
            "e2e/cli/test_approvals.py::test_a_run_cannot_answer_its_own_question",
        ),
    },
    "What a rule blocks stays blocked": {
        "It does so in a pipe": (
            f"{_POLICY}/test_downloads.py::test_a_rule_that_blocks_a_pipe_blocks_it_in_every_form",
            f"{_POLICY}/test_known_incidents.py::test_what_hid_a_program_elsewhere_hides_none_here",
            f"{_POLICY}/test_unread_lines.py::"
            "test_a_line_that_is_not_understood_is_blocked_where_a_rule_blocks_what_it_names",
        ),
    },
    "Private data does not leave unasked": {
        "A run that has read untrusted text *and* private data": (
            f"{_OBEDIENT}/test_obedient_model.py::test_nothing_of_the_secret_leaves_before_a_person_agrees",
            f"{_OBEDIENT}/test_obedient_doors.py::test_a_run_asks_before_it_sends_whichever_door_it_came_through",
            f"{_OBEDIENT}/test_obedient_commands.py::test_a_command_sends_nothing_after_a_page",
            f"{_OBEDIENT}/test_every_way.py::test_nothing_private_leaves_unasked_by_any_way",
            "unit/application/fleet/test_machines_are_outside.py::"
            "test_a_reading_command_with_private_data_of_elsewhere_asks",
            "unit/application/fleet/test_machines_are_outside.py::test_what_came_from_a_machine_may_go_back_to_it",
        ),
        "Every way in and every way out": (
            "architecture/test_ways.py::test_every_built_in_tool_has_a_way_in_and_a_way_out",
            "architecture/test_ways.py::test_every_module_that_speaks_to_the_network_belongs_to_a_way_out",
            "architecture/test_ways.py::test_the_guide_has_both_tables",
        ),
        "What looks like a key": (
            f"{_OBEDIENT}/test_obedient_model.py::"
            "test_what_looks_like_a_secret_asks_without_any_label_and_is_kept_nowhere",
            "unit/infrastructure/secrets/test_redaction.py::test_what_looks_like_a_secret_is_hidden",
        ),
    },
    "Nothing in a project is obeyed": {
        "A `.fabric` folder that came with it": (
            "unit/infrastructure/runs/log/test_folder_trust.py::test_what_came_with_a_project_is_refused",
            "unit/infrastructure/runs/log/test_folder_trust.py::test_settings_in_the_env_file_of_a_project_must_be_trusted",
            "e2e/agents/test_mcp.py::test_a_projects_own_file_starts_nothing_before_a_person_agrees",
        ),
        "What other programs obey": (
            "unit/infrastructure/sandbox/test_beneath.py::test_what_other_programs_obey_can_be_read_but_not_written",
            "integration/sandbox/test_bubblewrap_view.py::test_protected_files_that_exist_can_be_read_and_not_changed",
            "integration/sandbox/test_bubblewrap_view.py::"
            "test_what_a_command_makes_at_a_protected_name_is_put_aside_and_told",
            "integration/sandbox/test_containers.py::test_what_a_project_obeys_cannot_be_written",
        ),
    },
    "Every call goes through one door": {
        "It checks and records every call": (
            "architecture/test_layers.py::test_every_import_contract_is_kept",
            "architecture/test_layers.py::test_only_the_sandbox_and_what_runs_servers_start_processes",
        ),
    },
    "The record shows tampering": {
        "`fabric audit verify` notices": (
            "integration/persistence/test_audit_chain.py::test_tampering_is_noticed",
            "integration/persistence/test_audit_head.py::"
            "test_removed_newest_runs_are_noticed_whatever_is_written_afterwards",
            "integration/persistence/test_audit_head.py::test_every_changed_value_of_a_table_beside_the_log_is_noticed",
            "e2e/cli/test_audit_record.py::test_a_removed_run_is_noticed_until_a_person_accepts_it",
        ),
    },
    "Web tools stay out of your network": {
        "Addresses are resolved once": (
            "integration/web/test_private_addresses.py::"
            "test_a_name_that_turns_private_after_the_check_is_dialled_where_it_was_checked",
        ),
        "Private, loopback, link-local": (
            "integration/web/test_private_addresses.py::test_this_machine_is_not_read_unless_allowed",
            "integration/web/test_private_addresses.py::"
            "test_a_name_that_turns_private_between_two_redirects_is_refused",
            "integration/browser/test_browser.py::test_private_addresses_are_refused_also_by_redirect_link_and_script",
        ),
    },
    "The server listens on this machine only, until you say otherwise": {
        "Without `--host` or `server.host`": (
            "e2e/server/test_serve.py::test_serve_listens_where_it_is_told_and_else_at_127_0_0_1_8787",
        ),
        "An address that other machines can reach": (
            "e2e/server/test_serve.py::test_an_address_that_others_could_reach_is_refused_while_nobody_may_come_in",
            "unit/interfaces/http/test_gate.py::"
            "test_only_addresses_that_no_other_machine_reaches_are_this_machines_own",
        ),
        "It answers only requests whose `Host`": (
            "unit/interfaces/http/test_gate.py::test_only_names_of_this_machine_are_answered",
            "unit/interfaces/http/test_gate.py::test_pages_of_others_are_refused",
            "e2e/page/test_hostile.py::test_a_page_of_another_origin_gets_nothing",
        ),
    },
    "Every request shows who it is": {
        "Each route names the scope": (
            "integration/http/test_locks.py::test_no_door_opens_for_those_who_may_not_use_it",
            "integration/http/test_locks.py::test_no_door_opens_for_those_who_may_do_everything_else",
            "integration/http/test_locks.py::test_a_route_that_does_not_say_who_may_use_it_cannot_be_added",
        ),
        "Private runs of another owner": (
            "integration/http/test_whose_run.py::"
            "test_for_every_route_with_an_id_a_private_run_of_another_does_not_exist",
            "integration/http/test_whose_run.py::test_no_route_without_an_id_shows_a_private_run_of_another",
        ),
    },
    "A machine of the fleet obeys its own file first": {
        "Nothing that a hub says": (
            "integration/fleet/test_stolen_hub.py::"
            "test_thirty_forged_forms_execute_nothing_that_needs_a_signature_and_nothing_that_is_blocked",
            "integration/fleet/test_stolen_hub.py::test_no_message_reaches_the_floor_or_turns_something_on",
        ),
        "An approval is good for one call": (
            f"{_NODE}::test_what_changes_something_needs_an_approval_of_exactly_this_call",
            f"{_NODE}::test_the_same_call_runs_once_and_gives_the_same_result",
            "integration/fleet/test_effectively_once.py::test_no_kill_of_either_side_repeats_or_loses_a_command",
        ),
        "File tools and transfers stay below": (
            "integration/node/test_node_tools.py::test_files_are_read_and_written_below_roots_and_never_the_nodes_own",
            "unit/infrastructure/node/test_transfers.py::"
            "test_nothing_is_written_outside_of_the_roots_or_into_the_nodes_folder",
            "unit/domain/fleet/test_node_policy.py::test_a_command_that_names_what_lies_outside_of_the_roots_asks",
            "integration/fleet/test_machine_files_and_tools.py::"
            "test_a_machine_takes_files_gives_files_and_long_outputs_and_asks_its_tool_servers",
        ),
    },
    "On a channel, nobody is heard who is not paired": {
        "Messages of others reach no model": (
            f"{_CHANNELS}/test_attacks.py::test_a_thousand_strangers_get_three_codes_and_reach_no_model",
            f"{_CHANNELS}/test_files.py::test_what_a_stranger_sends_is_not_even_fetched",
        ),
        "A button carries no right": (
            f"{_CHANNELS}/test_approving.py::test_forged_buttons_decide_nothing",
            f"{_CHANNELS}/test_approving.py::test_a_call_that_was_changed_behind_the_card_is_not_approved",
            f"{_CHANNELS}/test_attacks.py::test_forged_forwarded_and_repeated_presses_do_nothing",
            f"{_CHANNELS}/test_attacks.py::test_a_right_that_was_taken_away_counts_at_once",
        ),
        "A delivery without a valid signature": (f"{_CHANNELS}/test_receive_webhook.py::test_a_spoofed_one_is_not",),
    },
    "Memory learns nothing from strangers by itself": {
        "A planted sentence becomes no fact": (
            f"{_MEMORY}/test_facts.py::test_no_planted_sentence_becomes_a_fact_even_if_the_model_always_obeys",
        ),
        "What a run proposes after": (
            f"{_MEMORY}/test_attacks.py::test_what_a_document_says_waits_for_a_person_and_names_its_source",
            f"{_MEMORY}/test_attacks.py::test_a_sentence_in_a_briefing_spoils_even_the_words_of_the_person",
        ),
        "Others find only what is shared": (
            f"{_MEMORY}/test_documents.py::test_others_find_only_what_is_shared",
            f"{_MEMORY}/test_facts.py::test_facts_of_others_cannot_be_reviewed",
        ),
    },
    "The page shows text as text": {
        "Nothing that a model, a tool or a document writes": (
            "e2e/page/test_hostile.py::test_hostile_messages_make_no_request_and_run_no_script",
            "e2e/page/test_hostile.py::test_an_approval_shows_what_hides_and_a_hostile_output_stays_text",
            "integration/page/test_client_source.py::test_nothing_in_the_client_makes_html_or_code_of_text",
        ),
        "Neither the cookie nor the token": (
            "integration/page/test_page_attacks.py::test_a_stolen_cookie_or_a_stolen_page_token_opens_no_door",
        ),
        "No other site can frame it": (
            "integration/page/test_page_attacks.py::test_a_page_elsewhere_can_neither_log_anybody_in_nor_frame_us",
            "e2e/page/test_hostile.py::test_a_page_of_another_origin_gets_nothing",
        ),
    },
    "In a cluster, the database alone decides": {
        "A run has one driver": (
            "integration/persistence/test_postgres_leases.py::test_a_run_has_one_driver_and_its_lease_is_given_back",
            "integration/persistence/test_postgres_leases.py::"
            "test_an_old_epoch_is_fenced_even_if_its_process_does_not_know_yet",
        ),
        "Without NATS and Redis": (
            "e2e/cluster/test_without_services.py::"
            "test_processes_start_and_work_without_nats_and_redis_and_say_so_once",
        ),
        "What a turn has left in Redis": (
            "integration/redis/test_turn_contexts.py::test_what_somebody_has_changed_moved_or_made_up_is_not_believed",
        ),
    },
}
"""By the bold words of a promise and the beginning of each of its sentences: the tests that hold it."""
TOUCHES = ("node.toml", "channel", "memory", "page", "cluster")
"""Parts of the product of which something has to be promised."""


class Promise(NamedTuple):
    """One entry of the list."""

    lead: str
    sentences: tuple[str, ...]


def promises(text: str) -> Iterator[Promise]:
    section = text.partition("## What is promised\n")[2].partition("\n## ")[0]
    for entry in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        plain = " ".join(entry.split())
        lead, found, rest = plain.removeprefix("**").partition("**")
        assert plain.startswith("**"), f"a promise begins with bold words: {plain[:60]}"
        assert found, f"a promise begins with bold words: {plain[:60]}"
        assert lead.endswith("."), f"bold words are a sentence, so that all others can be told apart: {lead}"
        yield Promise(lead[:-1], tuple(re.split(r"(?<=[.!?])\s+(?=[A-Z`])", rest.strip())))


def unheld(found: Promise) -> Iterator[str]:
    """Yield what is wrong with the tests of a promise."""
    known = HELD_BY.get(found.lead)
    if known is None:
        yield f"no tests are named for {found.lead!r}"
        return
    for sentence in found.sentences:
        if sum(sentence.startswith(start) for start in known) != 1:
            yield f"{found.lead}: no test holds {sentence!r}"
    for start in known:
        if not any(sentence.startswith(start) for sentence in found.sentences):
            yield f"{found.lead}: nothing there begins with {start!r} any more"
        if not known[start]:
            yield f"{found.lead}: {start!r} names no test"


@cache
def functions_of(path: str) -> frozenset[str]:
    file = ROOT / "tests" / path
    if not file.is_file():
        return frozenset()
    walked = ast.walk(ast.parse(file.read_text()))
    return frozenset(each.name for each in walked if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


PROMISES = tuple(promises((ROOT / "SECURITY.md").read_text()))


def test_every_sentence_that_is_promised_is_held_by_a_test() -> None:
    assert [problem for found in PROMISES for problem in unheld(found)] == []
    assert sorted(HELD_BY) == sorted(found.lead for found in PROMISES)


def test_every_test_that_holds_a_promise_exists() -> None:
    named = {test for sentences in HELD_BY.values() for tests in sentences.values() for test in tests}
    assert sorted(test for test in named if test.partition("::")[2] not in functions_of(test.partition("::")[0])) == []


def test_every_part_of_the_product_has_a_promise() -> None:
    said = " ".join(" ".join((found.lead, *found.sentences)) for found in PROMISES)
    assert [part for part in TOUCHES if part not in said.casefold()] == []


def test_a_promise_without_a_test_is_found() -> None:
    (made_up,) = promises("## What is promised\n\n- **No telemetry.** Nothing is reported. It also sings.\n\n## Next\n")
    assert list(unheld(made_up)) == ["No telemetry: no test holds 'It also sings.'"]
    assert functions_of("no/such/file.py") == frozenset()
