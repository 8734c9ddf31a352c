"""llama.cpp behind four calls: open a model, make a context, run a prompt, close. It uses the C API
through llama-cpp-python's ctypes declarations, so nothing of Python is in the timed loop but the call
of a step and the choice of the largest logit."""

import ctypes
import time

import llama_cpp as lib
import numpy as np

# What can be chosen, and the names for it here.
LOAD = {"mmap": 1, "read": 0}  # enum llama_load_mode: map the file, or read it into own memory
FLASH = {"off": 0, "on": 1}

messages = []


@lib.llama_log_callback
def keep_message(level, text, _):
    messages.append(text.decode(errors="replace"))


class Llama:
    def __init__(self, path, load="mmap", repack="on"):
        lib.llama_log_set(keep_message, None)
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.load_mode = LOAD[load]
        params.use_extra_bufts = repack == "on"
        params.n_gpu_layers = 0
        self.context = None
        self.model = lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit("llama.cpp cannot open " + str(path) + "\n" + "".join(messages[-20:]))
        self.n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def set_context(self, tokens_max, threads, flash="on", ubatch=512):
        if self.context:
            lib.llama_free(self.context)
        params = lib.llama_context_default_params()
        params.n_ctx = tokens_max
        params.n_batch = tokens_max
        params.n_ubatch = ubatch
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = FLASH[flash]
        params.no_perf = True
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context\n" + "".join(messages[-20:]))

    def close(self):
        if self.context:
            lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def decode(self, tokens):
        array = (lib.llama_token * len(tokens))(*tokens)
        status = lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(tokens)))
        if status != 0:
            raise SystemExit(f"llama_decode gave {status}\n" + "".join(messages[-20:]))

    def logits(self):
        """Of the last token; a view that is valid until the next step."""
        pointer = lib.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(
            ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.n_vocab,))

    def run(self, prompt, n_generate):
        """Greedy tokens, and seconds to the first and from the first to the last."""
        self.clear()
        begin = time.perf_counter()
        self.decode(prompt)
        tokens = [int(self.logits().argmax())]
        first = time.perf_counter()
        while len(tokens) < n_generate:
            self.decode(tokens[-1:])
            tokens.append(int(self.logits().argmax()))
        end = time.perf_counter()
        return {"tokens": tokens, "prefill_seconds": first - begin, "decode_seconds": end - first}


def system_info():
    return lib.llama_print_system_info().decode().strip()


def buffers():
    """What it said of its memory; a line CPU_REPACK shows that repacking took place."""
    return [line.strip() for line in "".join(messages).splitlines() if "buffer size" in line]
