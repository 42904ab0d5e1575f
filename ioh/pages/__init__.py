"""Pages of one file that open offline: a template, Chart.js, and the numbers as JSON.

The only package that knows jinja2.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from ioh.model.printable import printable

_FOLDER = Path(__file__).parent


def render(
    template: Path,
    script: str,
    data: object,
    filters: dict[str, Callable[..., str]],
    **values: object,
) -> str:
    """A page as HTML; every name from outside is text in it.

    Args:
        template: Extends ``base.html.j2``.
        script: A file beside it, which draws after ``page.js``.
        data: What the script draws, as JSON; no infinity, no NaN.
        filters: Of the template, beside ``clean``, which makes a name printable.
        values: Of the template.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"clean": printable, **filters}
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":  # JSON in a script element: nothing may end it
        text = text.replace(character, f"\\u{ord(character):04x}")
    shared = (_FOLDER / "chart.umd.min.js", _FOLDER / "page.js")
    return environment.get_template(template.name).render(
        **values,
        data=Markup(text),  # noqa: S704 (escaped above)
        css=_own(_FOLDER / "page.css"),
        scripts=[_own(path) for path in (*shared, template.parent / script)],
    )


def _own(path: Path) -> Markup:
    """A file of ours, which is no input."""
    return Markup(path.read_text(encoding="utf-8"))  # noqa: S704
