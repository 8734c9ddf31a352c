/* What the ranks of a model exchange within a step. With tensor parallelism every rank runs the
 * same program over the same batch with its part of the weights; a stage whose result is a sum or
 * a concatenation over ranks has an enum exchange_kind (program.h). The device calls this interface
 * there, or does the same inside its kernels. src/dist implements it for host memory. */
#ifndef BACKEND_EXCHANGE_H
#define BACKEND_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Which part of a model a rank has differs between kinds of devices: model/shard.h. */
enum shard_rule {
    SHARD_FOR_CPU,
    SHARD_FOR_GPU /* longer slices of the experts; the whole embedding on every rank */
};

/* A rank of several; {0, 0} and {0, 1}: there is one rank. */
struct shard {
    int rank, n_ranks;
    enum shard_rule rule; /* set by the model; 0 in exchanges */
};

enum {
    EXCHANGE_WAIT_MS = 60000, /* for a rank that lives but does not arrive: longer than any stage */
    EXCHANGE_CLOSE_MS = 2000, /* for the other ranks to close their devices, too */
    RANKS_MAX = 16,
    VOCAB_UNIT_ROWS = 64 /* the vocabulary is divided into multiples of so many rows */
};

/* In a sum, in place of a number: NaN. It stays whatever is added. */
#define EXCHANGE_NAN INT64_MIN

/* Part r of every row of `data` is bytes [first[r], first[r + 1]). */
struct gather {
    char *data;
    size_t n_rows, row_bytes;
    const size_t *first; /* (n_ranks + 1) */
};

struct exchange;

/* All ranks call the same functions in the same order with the same sizes. A rank that is silent or
 * gone is OSP_EDEVICE, with its name, on all others; the exchange is of no use after that. */
struct exchange_ops {
    /* data[i] = the sum of data[i] over all ranks, exact and in no order. */
    enum osp_status (*sum)(struct exchange *x, int64_t *data, size_t n);
    /* Rank 0 has all parts afterwards; on other ranks `data` is unchanged. */
    enum osp_status (*gather)(struct exchange *x, const struct gather *g);
    /* OSP_EDEVICE with the rank's name if one has ended or is silent; does not wait. For devices
     * that wait for other ranks by themselves. */
    enum osp_status (*check)(const struct exchange *x);
    /* Waits until every rank has called this, a rank has ended, or EXCHANGE_CLOSE_MS are over. For
     * devices whose memory other ranks map, before they free it. */
    void (*leave)(struct exchange *x);
};

struct exchange {
    const struct exchange_ops *ops;
    struct shard shard;
};

/* The first of n vocabulary rows that this rank has; shard_vocab_row(n, n_ranks, n_ranks) is n. */
static inline int64_t shard_vocab_row(int64_t n, int rank, int n_ranks)
{
    const int64_t n_units = (n + VOCAB_UNIT_ROWS - 1) / VOCAB_UNIT_ROWS;
    const int64_t row = n_units * rank / (n_ranks > 1 ? n_ranks : 1) * VOCAB_UNIT_ROWS;

    return row < n ? row : n;
}

#endif
