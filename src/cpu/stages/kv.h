/* Keys and values on their way into the pages of the KV cache, and out of them as plain rows. The
 * layout of a page is backend/kv_page.h's. */
#ifndef CPU_STAGES_KV_H
#define CPU_STAGES_KV_H

#include "backend/kv_page.h"

/* Rounds one row's k and v, (2, K, D) floats, into their slot of a page. BF16: to nearest, ties
 * to even. F8: times 448 / largest magnitude of the head, then to nearest, ties to even. I16:
 * times the largest factor that keeps kv_page.h's limits, then the same. */
void kv_store(const struct tensor *kv, int64_t page, int slot, const float *row);

/* A side as P rows of D floats. `which`: 0 keys, 1 values. */
void kv_load(float *out, const struct tensor *kv, const char *side, int which);

/* Rounding of one number, for kv_store(). A NaN stays one in BF16; F8 takes |x| <= 448 and a
 * little. */
uint16_t bf16_of(float x);
uint8_t f8_of(float x);
/* The value of an E4M3 code that is not NaN. */
float f8_value(uint8_t code);

#endif
