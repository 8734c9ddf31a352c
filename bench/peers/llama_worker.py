#!/usr/bin/env python3
"""llama.cpp as a process that answers lines: one JSON command in, one JSON answer out.

    llama_worker.py FILE.gguf LOAD REPACK      (mmap or read; on or off)
    {"context": {"tokens_max": 4096, "threads": 2, "flash": "on", "ubatch": 512}}
    {"prompt": [17, 4, ...], "generate": 33}
"""

import json
import sys
import time

import llama_engine


def main():
    begin = time.perf_counter()
    llama = llama_engine.Llama(sys.argv[1], sys.argv[2], sys.argv[3])
    answer({"load_seconds": time.perf_counter() - begin, "system": llama_engine.system_info(),
            "buffers": llama_engine.buffers()})
    for line in sys.stdin:
        command = json.loads(line)
        if "context" in command:
            llama.set_context(**command["context"])
            answer({})
        else:
            answer(llama.run(command["prompt"], command["generate"]))
    llama.close()


def answer(values):
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
