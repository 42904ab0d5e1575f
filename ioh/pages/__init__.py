"""Render a page as a single file that opens offline: a template, Chart.js, and data as JSON."""

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
    """Render a page as HTML, with all foreign text escaped.

    Args:
        template: Extends ``base.html.j2``.
        script: A file next to it, run after ``page.js``.
        data: Values for the script, without infinity and NaN.
        filters: Of the template, in addition to ``clean``, which makes a name printable.
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
    for character in "<>&":  # so that nothing ends the script element
        text = text.replace(character, f"\\u{ord(character):04x}")
    shared = (_FOLDER / "chart.umd.min.js", _FOLDER / "page.js")
    return environment.get_template(template.name).render(
        **values,
        data=Markup(text),  # noqa: S704 (escaped above)
        css=_own(_FOLDER / "page.css"),
        scripts=[_own(path) for path in (*shared, template.parent / script)],
    )


def _own(path: Path) -> Markup:
    """Read one of ioh's own files, which needs no escaping."""
    return Markup(path.read_text(encoding="utf-8"))  # noqa: S704
