"""The page that shows the API to people, in a real browser."""

from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from integration.http.served import served
from services import need_program


@pytest.mark.slow
async def test_the_page_shows_every_route_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    program = need_program("chromium", package="chromium")
    async with served(tmp_path) as server, async_playwright() as playwright:
        url = str(server.client.base_url).rstrip("/")
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            page = await browser.new_page()
            asked: list[str] = []
            wrong: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: wrong.append(message.text))
            page.on("pageerror", lambda problem: wrong.append(str(problem)))
            await page.goto(f"{url}/docs")
            await page.wait_for_selector("details")
            shown = [text.split()[:2] for text in await page.locator("summary code").all_inner_texts()]
        finally:
            await browser.close()
        described = (await server.client.get("/openapi.json")).json()["paths"]
        expected = {
            (method.upper(), path)
            for path, methods in described.items()
            for method, operation in methods.items()
            if not operation["operationId"].endswith("_below_prefix")
        }
        assert {tuple(each) for each in shown} == expected
        assert set(asked) <= {f"{url}/docs", f"{url}/openapi.json", f"{url}/favicon.ico"}
        assert [text for text in wrong if "favicon" not in text and "401" not in text] == []
        for path in ("/docs", "/redoc"):
            answer = await server.client.get(path)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "http" not in answer.text.replace("http-equiv", "")
