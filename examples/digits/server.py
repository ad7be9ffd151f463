"""Runs one replica of ``digits``: live at once, ready when its classifier is trained.

    python -m examples.digits.server --kind linear --port 9201

Predictions run one at a time in a thread, so that probes are answered while a slow one computes.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.digits import protocol
from examples.output import say

if TYPE_CHECKING:
    from examples.digits.models import Classifier

MODEL = "digits"
EXTENSIONS = ["binary_tensor_data"]
FEATURES = 64
KINDS = ("linear", "forest", "large-forest")
JSON_LENGTH = "Inference-Header-Content-Length"
"""Of the JSON object, where binary tensors follow it."""
MAX_BODY_BYTES = 8 * 1024 * 1024


class Service:
    """One model's HTTP endpoints; ``classifier`` is ``None`` until trained."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.classifier: Classifier | None = None
        self.compute = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")

    def application(self) -> Starlette:
        routes = [
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            Route("/v2/repository/index", self.index, methods=["POST"]),
            Route("/v2/models/{model}", self.describe),
            Route("/v2/models/{model}/ready", self.ready),
            Route("/v2/models/{model}/infer", self.infer, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        training = asyncio.create_task(self.learn())
        yield
        training.cancel()
        self.compute.shutdown(wait=False, cancel_futures=True)

    async def learn(self) -> None:
        self.classifier = await asyncio.get_running_loop().run_in_executor(self.compute, learn, self.kind)
        say(f"{self.kind} is trained: {self.classifier.accuracy:.1%} right on unseen digits")

    async def server(self, _: Request) -> Response:
        return JSONResponse({"name": "switchyard-example-digits", "version": "1", "extensions": EXTENSIONS})

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        if self.unknown(request):
            return unknown_model(request)
        if self.classifier is None:
            return JSONResponse({"ready": False, "error": "the model is being trained"}, 503)
        return JSONResponse({"name": MODEL, "ready": True})

    async def index(self, _: Request) -> Response:
        state = "LOADING" if self.classifier is None else "READY"
        return JSONResponse([{"name": MODEL, "version": self.kind, "state": state, "reason": ""}])

    async def describe(self, request: Request) -> Response:
        if self.unknown(request):
            return unknown_model(request)
        return Response(protocol.metadata(MODEL, self.kind, FEATURES), media_type="application/json")

    async def infer(self, request: Request) -> Response:
        if self.unknown(request):
            return unknown_model(request)
        if self.classifier is None:
            return JSONResponse({"error": "the model is being trained"}, 503)
        try:
            asked = protocol.read(await limited_body(request), request.headers.get(JSON_LENGTH), FEATURES)
        except protocol.InferenceError as error:
            return JSONResponse({"error": str(error)}, 400)
        predict = self.classifier.predict
        digits = await asyncio.get_running_loop().run_in_executor(self.compute, predict, asked.rows)
        body, json_length = protocol.answer(MODEL, self.kind, digits, asked)
        if json_length is None:
            return Response(body, media_type="application/json")
        return Response(body, 200, {JSON_LENGTH: str(json_length)}, "application/octet-stream")

    def unknown(self, request: Request) -> bool:
        return bool(request.path_params.get("model", MODEL) != MODEL)


def learn(kind: str) -> "Classifier":
    """Import scikit-learn and train, both in the computing thread: the server answers meanwhile."""
    from examples.digits.models import train

    return train(kind)


def unknown_model(request: Request) -> Response:
    return JSONResponse({"error": f"no model {request.path_params['model']!r} here, only {MODEL!r}"}, 404)


async def limited_body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise protocol.InferenceError(f"the request is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def main() -> None:
    parser = argparse.ArgumentParser(description="One digit classifier over the Open Inference Protocol.")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    application = Service(options.kind).application()
    uvicorn.run(application, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
