/* Writes keys and values into the pages of the KV cache, and reads them as plain rows.
 * backend/kv_page.h has the layout of a page. */
#ifndef CPU_STAGES_KV_H
#define CPU_STAGES_KV_H

#include "backend/kv_page.h"

/* Rounds one row's k and v, (2, K, D) floats, into their slot of a page. BF16: to nearest, ties to
 * even. F8: the head is scaled by 448 / its largest magnitude, then rounded to nearest, ties to
 * even. I16: the same with the largest factor within the limits of kv_page.h. */
void kv_store(const struct tensor *kv, int64_t page, int slot, const float *row);

/* Copies one slot of a side, keys (which = 0) or values (1), with its scale: from slot `from` of
 * another side, or of the same. */
void kv_copy_slot(const struct tensor *kv, int which, char *to_side, int to, const char *from_side,
                  int from);

/* Reads the keys (which = 0) or values (1) of a side as P rows of D floats. */
void kv_load(float *out, const struct tensor *kv, const char *side, int which);

/* Rounding of one number, for kv_store(). NaN stays NaN in BF16. f8_of() accepts |x| up to slightly
 * above 448. */
uint16_t bf16_of(float x);
uint8_t f8_of(float x);
/* The value of an E4M3 code that is not NaN. */
float f8_value(uint8_t code);

#endif
