"""A LitServe server that speaks the OpenAI API: ``PORT``; its setup waits for the file ``$GATE``.

Says ``max_tokens`` words, one each 20 ms. Runs in the servers' own environment.
"""

import os
import sys
import time
from pathlib import Path

import litserve
from litserve.specs.openai import OpenAISpec


class Words(litserve.LitAPI):
    def setup(self, device: str) -> None:
        while not Path(os.environ["GATE"]).exists():
            time.sleep(0.02)

    def predict(self, prompt, context):
        for number in range(context.get("max_tokens") or 5):
            time.sleep(0.02)
            yield f"word{number} "


if __name__ == "__main__":
    server = litserve.LitServer(Words(spec=OpenAISpec()), accelerator="cpu")
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="error",
    )
