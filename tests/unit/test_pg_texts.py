"""Statements without their constants: nothing that was one of them is left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.pg.login import Login, hide_passwords
from ioh.pg.texts import hide_constants

SHOWN = {
    "select * from t1 where a = 'x' and b=-7": "select * from t1 where a = ? and b=?",
    "select  1,\n 2.5e-3, .5, 0xFF": "select ?, …",
    "a in (1, 2,3) and b in ('x')": "a in (?, …) and b in (?)",
    "select a-1, a - 1 from b2": "select a-?, a - ? from b2",
    "values ('it''s', 'C:\\temp')": "values (?, …)",
    r"select E'it\'s', e'\\', 5": "select ?, …",
    "select $1, $2::int": "select $1, $2::int",
    "select $$secret$$, $q$sec$$ret$q$ from a$b$c": "select ?, … from a$b$c",
    'select "it\'s 5" from "T 1"': 'select "it\'s 5" from "T 1"',
    "select 1 -- secret 'x\n, a /* secret */ from t": "select ? , a from t",
    "alter role x password 'secret'": "alter role x password ?",
    "U&'d\\0061t' b'101' x'ff' n'secret'": "? ? ? ?",
    "select größe from straße where x=5": "select größe from straße where x=?",
}
HIDDEN = {
    "where a = 'secr": "where a = ?",
    r"where a = 'x\' , 'secret'": "where a = ?",
    "/* a /* b */ secret */ select 1": "?",
    "select /* secret": "select ?",
    "select $q$secr": "select ?",
    r"select E'secret\\\' more": "select ?",
}


@pytest.mark.parametrize("statement", SHOWN)
def test_a_question_mark_for_each_constant(statement: str) -> None:
    assert hide_constants(statement) == SHOWN[statement]
    assert "secret" not in hide_constants(statement)


@pytest.mark.parametrize("statement", HIDDEN)
def test_what_has_no_certain_end_is_hidden_to_the_last(statement: str) -> None:
    assert hide_constants(statement) == HIDDEN[statement]


@settings(max_examples=25)
@given(st.text(alphabet="abz_ $\\\n;()=,", max_size=20), st.text(max_size=20))
def test_no_string_is_left_wherever_it_is_cut(before: str, value: str) -> None:
    begun = f"select {before.replace('$', '')} 'q{value.replace(chr(39), chr(39) * 2)}q' , x"
    whole = hide_constants(begun)
    assert "'" not in whole
    for end in range(len(begun)):
        assert "'" not in hide_constants(begun[:end])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unrecognized arguments: --pg postgres://u:pw@h/d x", "--pg postgres://***@h/d x"),
        ("no such file password=pw", "no such file password=***"),
        ("host=h password = 'p w\\' x' user=u", "host=h password = *** user=u"),
        ("postgresql://h/d?password=pw&user=u", "postgresql://h/d?password=***&user=u"),
    ],
)
def test_a_password_is_in_no_error(text: str, shown: str) -> None:
    assert hide_passwords(text).endswith(shown)


def test_a_login_does_not_show_itself() -> None:
    assert "pw" not in repr(Login("password=pw"))
