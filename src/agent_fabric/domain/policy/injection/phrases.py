"""Finds signs in the words of a text: rules of ideas that stand close together."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntFlag
from functools import cache, lru_cache, reduce
from operator import or_
from typing import NamedTuple

from agent_fabric.domain.policy.injection.folding import fold, spellings

Idea = IntFlag(
    "Idea",
    "IGNORE DEFY OVERRIDING PRIOR INSTR TOLD YOU YOUR NEW TASK VOID NEG TELL USER HIDE FROMUSER MENTION THISTEXT "
    "SHOW PROMPT VERBATIM REPEAT ABOVE EVERYTHING AI BOT UNBOUND WITHOUT LIMITS BECOME JAILBREAK SEND SENSITIVE "
    "DEST FETCH MUST GRANT ADDRESSED MAKER LIFTED PREAPPROVED KEYFILE INCLUDE ITSCONTENT RUN NOASK SHELLY DECODE "
    "ENCODING OBEY TOOL CALL RISKY BEGINS ENDS",
)
"""What orders to a model are made of; `WORDS` has the words. DEFY is to ignore, and nothing milder; VOID is no
longer in force; BOT may be a model, a person or a program; DEST is an address to send to; KEYFILE a file that holds
secrets; ADDRESSED speaks to a model; MAKER claims to come from who may give orders; OVERRIDING sets new orders above
others by itself. At BEGINS a phrase may begin, at ENDS a sentence ends."""


_BEGINS, _ENDS, _DEST = int(Idea.BEGINS), int(Idea.ENDS), int(Idea.DEST)


class Phrase(NamedTuple):
    """Several words in a row."""

    rest: tuple[str, ...]
    """The words after the first."""
    open_end: bool
    """The last word may go on."""
    idea: int

    def follows(self, words: Sequence[str], at: int) -> bool:
        """Whether the phrase goes on as the words after `at` do."""
        last = at + len(self.rest)
        if last >= len(words) or not words[last].startswith(self.rest[-1]):
            return False
        return (self.open_end or words[last] == self.rest[-1]) and tuple(words[at + 1 : last]) == self.rest[:-1]


class Lexicon(NamedTuple):
    """All words, sorted for looking up."""

    exact: dict[str, int]
    stems: dict[str, list[tuple[str, int]]]
    """Words with any ending, by their first two letters."""
    phrases: dict[str, dict[str, list[Phrase]]]
    """By their first word, then by their second; under "" where the second may go on."""

    def ideas_of(self, word: str) -> int:
        """What a folded word may stand for, as bits of `Idea`."""
        found = 0
        for spelling in spellings(word):
            found |= self.exact.get(spelling, 0)
            for stem, idea in self.stems.get(spelling[:2], ()):
                if spelling.startswith(stem):
                    found |= idea
            if spelling in self.phrases:
                found |= _BEGINS
        return found

    def phrases_at(self, words: Sequence[str], at: int) -> int:
        """What the phrases that begin here stand for, as bits of `Idea`."""
        second = words[at + 1] if at + 1 < len(words) else ""
        by_second, found = self.phrases.get(words[at], {}), 0
        for phrase in (*by_second.get(second, ()), *by_second.get("", ())):
            if phrase.follows(words, at):
                found |= phrase.idea
        return found


@cache
def lexicon() -> Lexicon:
    """All words, sorted on first use."""
    exact: dict[str, int] = {}
    stems: dict[str, list[tuple[str, int]]] = {}
    phrases: dict[str, dict[str, list[Phrase]]] = {}
    for name, entries in (*WORDS.items(), ("ADDRESSED", address_forms())):
        idea = int(Idea[name])
        for entry in entries.split():
            open_end = entry.endswith("*")
            # Folding keeps `_`, and no word has one: texts are split at it.
            first, *rest = fold(entry.removesuffix("*")).split("_")
            if rest:
                second = "" if open_end and len(rest) == 1 else rest[0]
                by_second = phrases.setdefault(first, {})
                by_second.setdefault(second, []).append(Phrase(tuple(rest), open_end, idea))
            elif open_end:
                stems.setdefault(first[:2], []).append((first, idea))
            else:
                exact[first] = exact.get(first, 0) | idea
    return Lexicon(exact, stems, phrases)


class SignalRule(NamedTuple):
    """Ideas that make a sign when all others are met near the first."""

    sign: str
    anchor: int
    """The rarest of its ideas: where it stands, the others are looked for."""
    ideas: int
    """All of them."""
    within: int
    """How many words the others may be away."""


def _rule(sign: str, ideas: str, within: int) -> SignalRule:
    bits = [int(Idea[name]) for name in ideas.split()]
    return SignalRule(sign, bits[0], sum(bits), within)


RULES = (
    _rule("override", "IGNORE PRIOR INSTR", 7),
    _rule("override", "IGNORE YOUR INSTR", 6),
    _rule("override", "IGNORE TOLD YOU", 7),
    _rule("override", "DEFY PROMPT", 4),
    _rule("override", "OVERRIDING", 0),
    _rule("override", "TASK YOUR NEW", 3),
    _rule("override", "VOID PRIOR INSTR", 8),
    _rule("override", "VOID YOUR INSTR", 6),
    _rule("secrecy", "USER NEG TELL", 5),
    _rule("secrecy", "FROMUSER HIDE", 8),
    _rule("secrecy", "THISTEXT NEG MENTION", 6),
    _rule("prompt_leak", "PROMPT SHOW YOUR", 7),
    _rule("prompt_leak", "PROMPT SHOW VERBATIM", 7),
    _rule("prompt_leak", "ABOVE REPEAT EVERYTHING", 5),
    _rule("persona", "BECOME WITHOUT LIMITS", 12),
    _rule("persona", "LIMITS YOU WITHOUT AI", 9),
    _rule("persona", "LIMITS WITHOUT AI", 6),
    _rule("persona", "UNBOUND AI", 4),
    _rule("persona", "UNBOUND BOT", 4),
    _rule("persona", "JAILBREAK", 0),
    _rule("exfiltration", "DEST SEND SENSITIVE", 11),
    _rule("exfiltration", "DEST FETCH SENSITIVE", 8),
    _rule("exfiltration", "KEYFILE INCLUDE ITSCONTENT", 12),
    _rule("authority", "ADDRESSED MUST", 14),
    _rule("authority", "ADDRESSED GRANT", 14),
    _rule("authority", "ADDRESSED SEND", 10),
    _rule("authority", "ADDRESSED IGNORE", 10),
    _rule("authority", "PREAPPROVED AI", 8),
    _rule("authority", "AI MUST GRANT", 9),
    _rule("authority", "MAKER LIFTED", 12),
    _rule("authority", "MAKER AI MUST", 12),
    _rule("encoded", "ENCODING DECODE OBEY", 12),
    _rule("shell", "SHELLY AI RUN", 14),
    _rule("shell", "SHELLY BOT RUN MUST", 14),
    _rule("shell", "SHELLY RUN NOASK", 14),
    _rule("shell", "ADDRESSED SHELLY", 14),
    _rule("tool_call", "RISKY CALL TOOL", 12),
)

FARTHEST = max(rule.within for rule in RULES)

SPACED_OUT = ("ignore", "override", "previousinstr", "systemprompt", "disregard", "donottellthe")
"""What is looked for in letters that stand alone, l i k e t h i s."""


_PIECES = r"https?://[^\s<>\"')]*|\w+@?|[.!?](?=\s|$)|\n(?:\r?\n|[-*#>|])"
"""Addresses, words, and ends of sentences: simple runs, of which none is read twice."""
_MAX_WORD_CHARS = 40


class PhraseSignals(NamedTuple):
    """What the words of a text say."""

    signs: frozenset[str]
    ideas: int
    """All ideas in the text, wherever they stand."""


def findings_in(plain: str) -> PhraseSignals:
    """Signs and ideas in a folded text, in time that grows with its length only."""
    words: list[str] = re.findall(_PIECES, plain.replace("_", " "))
    marks = _marks(words)
    everything = reduce(or_, set(marks), 0)
    rules = tuple(rule for rule in RULES if everything & rule.ideas == rule.ideas)
    anchors = reduce(or_, (rule.anchor for rule in rules), 0)
    signs: set[str] = set()
    if anchors:
        for at, mark in enumerate(marks):
            if mark & anchors:
                signs.update(_signs_at(marks, at, rules))
    if _spaced_out(words):
        signs.add("override")
    return PhraseSignals(frozenset(signs), everything)


def _marks(words: list[str]) -> list[int]:
    """The ideas of each word; those of a phrase stand at its first word."""
    marks = [_ideas_of(word) if len(word) <= _MAX_WORD_CHARS else _ideas_of_long(word) for word in words]
    for at, mark in enumerate(marks):
        if mark & _BEGINS:
            marks[at] |= lexicon().phrases_at(words, at)
    return marks


@lru_cache(maxsize=16_384)
def _ideas_of(word: str) -> int:
    if word[0] in ".!?\n":
        return _ENDS
    if word[-1] == "@" or word.startswith(("http://", "https://")):
        return _DEST
    return lexicon().ideas_of(word)


def _ideas_of_long(word: str) -> int:
    """What a word is that is too long to be looked up or remembered."""
    return _DEST if word.startswith(("http://", "https://")) else 0


def _signs_at(marks: list[int], at: int, rules: Iterable[SignalRule]) -> Iterator[str]:
    """Signs whose anchor stands here."""
    here = marks[at]
    # By distance: all ideas that are at most so far away, in the same sentence.
    near = [here] * (FARTHEST + 1)
    before, after = marks[max(0, at - FARTHEST) : at][::-1], marks[at + 1 : at + 1 + FARTHEST]
    for side in (before, after):
        seen = distance = 0
        for mark in side:
            distance += 1
            if not seen & _ENDS:
                seen |= mark
            near[distance] |= seen
        for beyond in range(distance + 1, FARTHEST + 1):
            near[beyond] |= seen
    for rule in rules:
        if rule.anchor & here and near[rule.within] & rule.ideas == rule.ideas:
            yield rule.sign


def _spaced_out(words: list[str]) -> bool:
    """Whether single letters in a row spell out an order."""
    letters = "".join([word if len(word) == 1 else " " for word in words])
    return any(order in letters for order in SPACED_OUT)


WORDS = {
    "IGNORE": "ignore disregard override bypass abandon forget nevermind never_mind skip do_not_follow don_t_follow "
    "set_aside stop_following pay_no_attention overrule",
    "DEFY": "ignore disregard forget do_not_follow don_t_follow stop_following no_longer_follow",
    "OVERRIDING": "before_you_can_solve_the_task strictly_adhere_to_the_following strictly_follow_the_following "
    "solve_the_task_that_i_gave_you adhere_only_to_the_following obey_only_the_following "
    "your_real_instructions instead_of_your_original instead_of_the_original_task",
    "PRIOR": "previous previously prior earlier preceding above before foregoing former initial original existing "
    "past so_far",
    "INSTR": "instruction instructions rules guidelines directives directive prompt prompts orders guidance "
    "system_prompt policies constraints programming commands training safeguards",
    "TOLD": "told instructed were_given asked",
    "YOU": "you",
    "YOUR": "your yours",
    "NEW": "new real true actual updated",
    "TASK": "task objective mission goal instruction instructions directive orders purpose job assignment",
    "VOID": "void revoked cancelled canceled obsolete superseded invalid no_longer_apply no_longer_valid "
    "overridden lifted",
    "NEG": "not never don dont without no cannot nor avoid",
    "TELL": "tell inform notify reveal mention disclose informing telling notifying alerting mentioning revealing "
    "find_out let_the_user_know let_the_human_know let_them_know",
    "USER": "user human operator",
    "HIDE": "hide conceal keep_hidden keep_secret secretly silently covertly quietly keep_this_hidden "
    "keep_this_secret keep_it_secret keep_it_hidden hidden_from unnoticed",
    "FROMUSER": "from_the_user from_the_human from_the_operator from_users from_the_person",
    "MENTION": "mention reference refer reveal include acknowledge discuss disclose hint bring_up",
    "THISTEXT": "these_instructions this_instruction this_message this_note this_section this_paragraph this_text "
    "this_step this_prompt this_request",
    "SHOW": "print output show display reveal repeat reproduce dump write_out list tell_me give_me return leak "
    "disclose spell_out copy echo recite state put translate what_is what_are what_were share expose "
    "summarise summarize provide",
    "PROMPT": "system_prompt system_message system_instructions initial_instructions initial_prompt hidden_rules "
    "hidden_instructions hidden_prompt secret_instructions original_instructions "
    "confidential_instructions original_prompt developer_message pre_prompt preprompt your_prompt "
    "your_instructions your_guidelines your_full_configuration your_rules your_context_window",
    "VERBATIM": "verbatim word_for_word exactly exact full entire complete whole in_full in_a_code_block all_of_it",
    "REPEAT": "repeat output print copy reproduce write recite echo return",
    "ABOVE": "above before_this preceding prior_to_this earlier_than_this",
    "EVERYTHING": "everything all text words content contents whole",
    "AI": "assistant assistants ai llm llms language_model language_models chatbot chatbots chatgpt gpt claude "
    "copilot gemini ai_agent ai_agents ai_assistant ai_assistants coding_agent coding_agents "
    "autonomous_agent automated_agent llm_agents coding_assistants ai_model ai_models",
    "BOT": "bot bots agent agents model models",
    "UNBOUND": "unrestricted unfiltered uncensored jailbroken unlimited_ai amoral unaligned",
    "WITHOUT": "without no broken_out free_from freed_from free_of not_have not_bound never_refuses never_refuse "
    "broken_free ignores have_no has_no any off lifted disabled released_from not_subject_to",
    "LIMITS": "restrictions restriction limits limitations filter filters rules guidelines boundaries ethics morals "
    "censorship safeguards constraints safety_rules ethical_guidelines content_filter content_policy "
    "moral_boundaries safety_checks",
    "BECOME": "you_are_now you_are_no_longer act_as pretend pretend_to_be roleplay role_play simulate imagine "
    "you_will_act_as assume_the_identity assume_the_role from_now_on_you stay_in_character respond_as "
    "you_become you_have_been_freed let_s_play take_on_the_persona impersonate behave_as",
    "JAILBREAK": "jailbreak_mode do_anything_now dan_mode enable_developer_mode enter_developer_mode enter_dan "
    "developer_mode_enabled in_developer_mode_you are_now_dan god_mode_enabled evil_mode "
    "now_in_developer_mode",
    "SEND": "send forward post upload transmit mail e_mail email exfiltrate publish append forwards paste",
    "SENSITIVE": "password passwords passphrase api_key api_keys token tokens secret secrets credentials credential "
    "private_key ssh_key id_rsa id_ed25519 environment_variables conversation chat_history inbox cookie "
    "cookies mails emails e_mails messages contacts customer_data session_cookie private_messages "
    "personal_data credit_card",
    "MUST": "must should required have_to has_to need_to needs_to ordered instructed instructs orders obliged "
    "shall is_to are_to immediately right_now at_once urgent",
    "GRANT": "grant approve obey comply transfer wire recommend rate authorise authorize click reveal include "
    "unlock confirm accept praise describe fetch open visit disable delete follow_the add",
    "MAKER": "your_developer your_developers your_creator your_creators your_maker openai anthropic safety_team "
    "system_administrator admin_override the_administrator",
    "LIFTED": "authorise_you authorize_you are_required pre_approve are_now_allowed you_are_allowed are_lifted "
    "without_asking you_can_now no_confirmation without_confirmation",
    "PREAPPROVED": "the_user_has_already_authorised the_user_has_already_authorized the_user_has_already_approved "
    "the_user_has_already_given the_user_has_already_agreed user_has_pre_approved",
    "KEYFILE": "id_rsa id_ed25519 aws_credentials env_file mcp_json etc_passwd etc_shadow authorized_keys the_env "
    "netrc ssh_config of_env private_key_file",
    "INCLUDE": "include pass append attach embed paste copy send post provide put",
    "ITSCONTENT": "its_content its_contents the_content_of the_contents_of content_as contents_in contents_to contents",
    "RUN": "run execute type paste install launch start eval perform",
    "NOASK": "without_asking without_confirmation no_confirmation without_permission don_t_ask do_not_ask "
    "without_approval no_need_to_ask",
    "SHELLY": "curl wget sudo bash rm_rf chmod nc os_system terminal shell eval pip powershell dev_tcp git_config",
    "DECODE": "decode decoded convert deobfuscate decrypt unscramble translate_from read_every apply_rot13 atob "
    "decipher",
    "ENCODING": "base64 hex hexadecimal rot13 morse backwards ascii_codes cipher binary url_encoded reversed",
    "OBEY": "follow obey execute comply carry_out act_on do_what run perform your_next_task your_task",
    "TOOL": "tool function plugin browser_tool",
    "CALL": "call use invoke",
    "RISKY": "transfer_money credentials delete_all os_system before_using_any_other_tool aws_credentials mcp_json "
    "transfer send_email",
    "FETCH": "fetch dns_lookup browse navigate include_an_image render",
}
"""English words by the idea they stand for.

`_` joins the words of a phrase; `*` at the end stands for any ending. Verbs stand in the forms of an order, so that
text that merely reports ("he ignored the rules") is left alone.
"""

HAILS = (
    "note notice message instruction instructions reminder attention dear hey hello to_any to_all any all if_you_are "
    "you_the you_as whichever system_note important_note"
)
"""How an address begins."""
LINKS = "to_ for_ an_ a_ the_ to_the_ for_the_ to_any_ to_all_ for_any_ for_all_"
MODELS = (
    "ai ais llm llms language_model language_models chatbot chatbots assistant assistants copilot claude chatgpt gpt "
    "gemini coding_agent coding_agents coding_assistant coding_assistants autonomous_agent automated_agent"
)
"""Who is spoken to."""
READING = "reading_this reads_this that_reads_this processing_this processes_this visiting_this summarising_this"
"""What marks the addressee as a reader of the text."""


def address_forms() -> str:
    """Ways to speak to a model: note to AI, attention all assistants, if you are an LLM, bots reading this."""
    hailed = (
        f"{hail}_{link}{model}" for hail in HAILS.split() for link in ("", *LINKS.split()) for model in MODELS.split()
    )
    readers = (f"{model}_{reading}" for model in MODELS.split() for reading in READING.split())
    return " ".join((*hailed, *readers))
