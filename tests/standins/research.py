"""Stand-ins for what research packs use: a web in a dictionary, and earlier runs in a list."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agent_fabric.application.ports.runs import ANY_RUN, RunQuery, RunRecord
from agent_fabric.application.ports.web import Page, SearchHit, WebError
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, OwnedRun, Viewer, Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.policy.globs import host_of
from agent_fabric.domain.tools.allowlists import Allowlists


@dataclass(slots=True)
class DictionaryWeb:
    """PageFetcher and WebSearch over texts by address; remembers what was asked for."""

    texts: Mapping[str, str] = field(default_factory=dict)
    hits: Sequence[SearchHit] = ()
    cut: bool = False
    """Every page is longer than could be read."""
    asked: list[str] = field(default_factory=list)

    async def fetch(
        self,
        url: str,
        *,
        timeout_s: float,
        limits: Sequence[Allowlists] = (),
        files: Collection[str] = (),
    ) -> Page:
        if reason := refuse_domain(limits, host_of(url)):
            raise PermissionError(reason)
        self.asked.append(url)
        if not url.startswith("https://"):
            raise PermissionError(f"{url} is not a public address")
        if url not in self.texts:
            raise WebError(f"{url} answered 404. Try another page.")
        return Page(
            url=url,
            final_url=url,
            status=200,
            content_type="text/html",
            body=self.texts[url].encode(),
            title=f"Title of {url}",
            text=self.texts[url],
            cut=self.cut,
        )

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        self.asked.append(query)
        return self.hits[:limit]


@dataclass(slots=True)
class ListCatalogue:
    """RunCatalogue over a list of records, newest first."""

    records: Sequence[RunRecord] = ()

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        return self.records[:limit]

    async def search(
        self,
        query: str,
        *,
        limit: int,
        viewer: Viewer = EVERYTHING,
        only: RunQuery = ANY_RUN,
    ) -> Sequence[RunRecord]:
        words = query.lower().split()
        seen = [each for each in self.records if viewer.sees(each.owner, each.visibility) and only.matches(each)]
        return [each for each in seen if any(word in f"{each.prompt} {each.summary}" for word in words)][:limit]

    async def locate(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> OwnedRun:
        """Return a run; one that is not in the list is the folder's own."""
        known = (OwnedRun(each.run_id, each.owner, each.visibility) for each in self.records)
        own = OwnedRun(RunId(prefix), "", Visibility.TEAM)
        return next((each for each in known if each.run_id.startswith(prefix)), own)

    async def find(self, prefix: str) -> RunId:
        for record in self.records:
            if record.run_id.startswith(prefix):
                return record.run_id
        raise RunNotFound(f"There is no run {prefix!r}")
