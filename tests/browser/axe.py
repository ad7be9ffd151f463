"""axe-core over a page as it stands, in both themes."""

from pathlib import Path

from playwright.sync_api import Page

AXE = (Path(__file__).parent / "vendored" / "axe.min.js").read_text()
RUN = """async (within) => {
  const { violations } = await axe.run(within || document, { resultTypes: ["violations"] });
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical").map((one) =>
    `${one.impact} ${one.id}: ${one.help}: ` +
    one.nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} (${failureSummary})`).join("; "));
}"""


def findings(page: Page, within: str = "") -> list[str]:
    """What axe calls serious or critical on the page as it stands, in either theme, in words. ``within``: a
    selector, for a part of a page that is long."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    found: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {finding}" for finding in page.evaluate(RUN, within)]
    return found
