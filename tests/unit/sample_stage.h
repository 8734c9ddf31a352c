/* Runs stage sample alone, for tests of sampling. */
#ifndef TESTS_UNIT_SAMPLE_STAGE_H
#define TESTS_UNIT_SAMPLE_STAGE_H

#include "unit.h"

#include "backend/backend.h"

/* Samples sample i from row i of a->logits, at position i of the batch's only sequence. `b` has n
 * rows and n samples, whose positions and samples this sets. */
static inline void run_sample_stage(const struct backend_ops *ops, struct backend *device,
                                    const struct sample_args *a, struct batch *b,
                                    const struct batch_sample *samples, int n)
{
    struct program p = {0};
    struct compiled *c;
    uint64_t ticket;

    for (int i = 0; i < n; i++) {
        ((int32_t *)(uintptr_t)BATCH_POSITIONS(b))[i] = i;
        ((struct batch_sample *)(uintptr_t)BATCH_SAMPLES(b))[i] = samples[i];
        ((struct batch_sample *)(uintptr_t)BATCH_SAMPLES(b))[i].row = i;
    }
    assert_int_equal(PROGRAM_ADD(&p, sample, NO_LAYER, *a), OSP_OK);
    assert_int_equal(ops->compile(device, &p, &c), OSP_OK);
    assert_int_equal(ops->run(device, c, b, &ticket), OSP_OK);
    assert_int_equal(ops->step_wait(device, ticket), OSP_OK);
    ops->release_program(device, c);
    program_free(&p);
}

#endif
