"""MkDocs hook: adds the Markdown files of the repository's root to the site, and rewrites links to them."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
#: Files of the root, and their names in the site. The index of docs/ is already called README.md.
PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the root."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=_links_from_root((ROOT / source).read_text())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links from docs/ to files of the root."""
    for source, target in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return markdown


def _links_from_root(markdown: str) -> str:
    """Rewrite links of a file in the root, which are relative to the root."""
    for source, target in PAGES.items():
        markdown = markdown.replace(f"]({source}", f"]({target}")
    return re.sub(r"\]\(docs/(\)?)", lambda found: "](README.md)" if found[1] else "](", markdown)
