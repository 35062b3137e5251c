"""What becomes of the lines of crontabs."""

import pytest

from agent_fabric.domain.automation.crontab import CrontabJob, fabric_wish, read_crontab, script_of
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron

OPERATOR = r"""# m h dom mon dow   command
SHELL=/bin/bash
PATH=/usr/local/bin:/usr/bin
MAILTO="ops@example.org"

0 3 * * *       /usr/local/bin/backup.sh --full > /dev/null 2>&1
*/15 2 * * *    /usr/local/bin/poll.sh
30 2 * * sun    cd /srv/app && ./weekly.py
@hourly         /usr/bin/true
@Daily          find /tmp -mtime +3 -print
@reboot         /usr/local/bin/start-agent
@every 5m       /usr/local/bin/beat
0 0 29 feb *    echo "leap day"
0 12 31 2 *     echo "never"
5,35 8-18/2 * * mon-fri  /usr/local/bin/poll.sh --business
0 22 * * 1-5    mail -s "It's 10pm" joe%Joe,%%Where are your kids?%
10 1 * * *      date +\%Y-\%m-\%d >> /var/log/days
CRON_TZ=America/New_York
0 9 * * 7       docker ps --format '{{.Names}}'
0~59 4 * * *    /usr/local/bin/random
-0 6 * * *      /usr/local/bin/quiet
15 14 1 * 5     fabric run --pack engineering 'Summarize the month.' >> /tmp/log 2>&1
0 4 * * *       cd /project && fabric workflow run triage -i since=yesterday -i depth=2
* * * * *       cd /project && fabric schedules tick
0 5 * * *       fabric run 'one' && fabric run 'two'
61 * * * *      /usr/bin/true
0 7 * * funday  /usr/bin/true
* * * *
what is this
"""


def jobs() -> dict[int, CrontabJob]:
    return {each.line: each for each in read_crontab(OPERATOR).jobs}


def test_an_operators_crontab_is_read_line_by_line() -> None:
    found = read_crontab(OPERATOR)
    assert [(each.line, each.cron_expression or each.every, each.name) for each in found.jobs] == [
        (6, "0 3 * * *", "backup"),
        (7, "*/15 2 * * *", "poll"),
        (8, "30 2 * * sun", "weekly"),
        (9, "@hourly", "true"),
        (10, "@daily", "find"),
        (12, "5m", "beat"),
        (13, "0 0 29 feb *", "echo"),
        (15, "5,35 8-18/2 * * mon-fri", "poll-2"),
        (16, "0 22 * * 1-5", "mail"),
        (17, "10 1 * * *", "date"),
        (19, "0 9 * * 7", "docker"),
        (21, "0 6 * * *", "quiet"),
        (22, "15 14 1 * 5", "summarize-the-month"),
        (23, "0 4 * * *", "triage"),
        (24, "* * * * *", "fabric"),
        (25, "0 5 * * *", "fabric-2"),
    ]
    for each in found.jobs:
        if each.cron_expression:
            read_cron(each.cron_expression)
    reasons = {each.line: each.reason for each in found.problems}
    assert sorted(reasons) == [11, 14, 20, 26, 27, 28, 29]
    assert "starts with the machine" in reasons[11]
    assert "no such month has a day 31" in reasons[14]
    assert "jitter_s" in reasons[20]


def test_settings_count_from_their_line_on() -> None:
    found = jobs()
    assert {found[6].shell, found[19].shell} == {"/bin/bash"}
    assert found[6].env == {"PATH": "/usr/local/bin:/usr/bin"}
    assert (found[17].timezone, found[19].timezone) == ("", "America/New_York")


def test_a_percent_sign_ends_the_command_unless_it_is_escaped() -> None:
    found = jobs()
    assert found[17].command == "date +%Y-%m-%d >> /var/log/days"
    assert found[16].command == 'mail -s "It\'s 10pm" joe'
    assert found[16].stdin == "Joe,\n\nWhere are your kids?\n"
    script = script_of(found[16])
    assert script.startswith("printf '%s\\n' 'Joe,")
    assert script.endswith('| { mail -s "It\'s 10pm" joe\n}')


def test_lines_that_call_fabric_become_what_they_call() -> None:
    found = jobs()
    assert fabric_wish(found[22].command) == {"task_instruction": "Summarize the month.", "agent_id": "engineering"}
    wish = {"target_kind": "workflow", "target": "triage", "inputs": {"since": "yesterday", "depth": "2"}}
    assert fabric_wish(found[23].command) == wish
    assert fabric_wish(found[6].command) is None
    for line, reason in ((24, "by itself"), (25, "more than one command")):
        with pytest.raises(ValueError, match=reason):
            fabric_wish(found[line].command)


def test_lines_of_the_system_name_a_user() -> None:
    found = read_crontab("17 * * * * root cd / && run-parts --report /etc/cron.hourly\n0 1 * * * root\n", system=True)
    assert [each.command for each in found.jobs] == ["cd / && run-parts --report /etc/cron.hourly"]
    assert [each.line for each in found.problems] == [2]


@pytest.mark.parametrize("text", ["", "\ufeff# only\r\n", "\0", "A=1\nB = 'x y'\n", "\r\n\t\r\n"])
def test_what_starts_nothing_is_no_problem(text: str) -> None:
    assert read_crontab(text) == ([], [])
