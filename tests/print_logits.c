/* The logits of a model as a filter, for comparisons of layouts and with other engines (tests/tools,
 * bench/peers): 32-bit token ids on standard input are one sequence; standard output has a row of
 * float32 logits for each.
 *
 *   print_logits MODEL [LAYERS]    a folder or a GGUF file; layers to quantise as --mxfp4-layers
 *
 * OSPREY_CPU_FEATURES chooses the kernels; "ref" computes in float32. */
#include "steps.h"

enum { TOKENS_MAX = 4096, STEP_ROWS = 256 };

int main(int argc, char **argv)
{
    static int32_t tokens[TOKENS_MAX];
    const int n = (int)fread(tokens, sizeof tokens[0], TOKENS_MAX, stdin);
    struct steps_seq s = {.tokens = tokens, .n_tokens = n};
    struct model *m;
    size_t n_logits;

    if (argc < 2 || argc > 3 || n < 1) {
        fprintf(stderr, "usage: print_logits MODEL [LAYERS] <ids\n");
        return 2;
    }
    must(mxfp4_layers_parse(&steps_mxfp4_layers, argc > 2 ? argv[2] : NULL));
    m = steps_open(argv[1], 2, STEP_ROWS, 1, n);
    n_logits = (size_t)n * (size_t)model_config(m)->vocab_size;
    s.logits = mem_new(n_logits * sizeof *s.logits);
    steps_play(m, &s, STEP_ROWS, 1);
    n_logits -= fwrite(s.logits, sizeof *s.logits, n_logits, stdout);
    free(s.logits);
    model_close(m);
    return n_logits > 0;
}
