/* UTF-8, strictly as RFC 3629 (no surrogates, no overlong forms, nothing past U+10FFFF). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_REPLACEMENT = 0xFFFD };

/* Reads one code point of [s, s + n_bytes), n_bytes >= 1, and returns its length. For an ill-formed
 * sequence *code_point is UTF8_REPLACEMENT, *valid is false and the length is that of the maximal
 * ill-formed subpart (Unicode 3.9, as Rust's from_utf8_lossy and Python's errors="replace" do). */
size_t utf8_read(const char *s, size_t n_bytes, uint32_t *code_point, bool *valid);

/* Writes 1 to 4 bytes; returns their number. */
size_t utf8_write(uint32_t code_point, char out[4]);

bool utf8_is_valid(const char *s, size_t n_bytes);

/* Length of an incomplete character at the end of s (0 to 3). */
size_t utf8_incomplete_tail(const char *s, size_t n_bytes);

#endif
