/* Detects the ISAs of this CPU and selects the table of kernels. Every ISA computes the same
 * formulas; "ref", which runs on every CPU, is the oracle that the others are compared with. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* X(name, table, condition), from the slowest to the fastest */
#define ISA_LIST(X)                                                                                \
    X("ref", kernels_ref, always_available)                                                        \
    X("avx2", kernels_avx2, has_avx2)                                                              \
    X("avx-vnni", kernels_avxvnni, has_avxvnni)                                                    \
    X("avx512", kernels_avx512, has_avx512)                                                        \
    X("amx", kernels_amx, has_amx)
extern const struct kernels kernels_avx2, kernels_avxvnni, kernels_avx512, kernels_amx;

struct leaf {
    unsigned a, b, c, d;
};

/* A CPUID leaf; zeros if the CPU does not have it. */
static struct leaf leaf_of(unsigned leaf, unsigned subleaf)
{
    struct leaf l = {0, 0, 0, 0};

    if (__get_cpuid_count(leaf, subleaf, &l.a, &l.b, &l.c, &l.d) == 0)
        return (struct leaf){0, 0, 0, 0};
    return l;
}

static bool has_bits(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

/* Whether the operating system saves these register states (XCR0) on a context switch. */
static bool os_saves_state(unsigned states)
{
    unsigned low, high;

    if (!has_bits(leaf_of(1, 0).c, 1u << 27)) /* OSXSAVE */
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_bits(low, states);
}

enum {
    STATES_YMM = 0x06, /* XMM and YMM registers */
    STATES_ZMM = 0xE6, /* and the mask registers, the upper halves of ZMM 0-15, and ZMM 16-31 */
    STATES_TILES = 0x60000
};

static bool has_avx2(void)
{
    const unsigned fma = 1u << 12, f16c = 1u << 29, avx2 = 1u << 5;

    return has_bits(leaf_of(1, 0).c, fma | f16c) && has_bits(leaf_of(7, 0).b, avx2) &&
           os_saves_state(STATES_YMM);
}

static bool has_avxvnni(void)
{
    return has_avx2() && has_bits(leaf_of(7, 1).a, 1u << 4);
}

static bool has_avx512(void)
{
    const unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    const unsigned vbmi = 1u << 1, vnni = 1u << 11;

    return has_avx2() && has_bits(leaf_of(7, 0).b, f | dq | bw | vl) &&
           has_bits(leaf_of(7, 0).c, vbmi | vnni) && os_saves_state(STATES_ZMM);
}

/* Linux lets a process use AMX tiles only after it asked for permission (arch_prctl). */
static bool may_use_tiles(void)
{
    const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM takes a state number */

    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

static bool has_amx(void)
{
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;

    return has_avx512() && has_bits(leaf_of(7, 0).d, amx_bf16 | amx_tile) &&
           os_saves_state(STATES_ZMM | STATES_TILES) && may_use_tiles();
}

/* Measured for one thread that reads weights. Zen 3: 32 GB/s without software prefetching, 30 GB/s
 * with it. Emerald Rapids: 78 to 85 % of the rate of a plain read without it, 90 to 96 % with it.
 * No other CPU was measured. */
bool kernels_want_prefetch(void)
{
    const unsigned of_amd = 0x68747541; /* "Auth"enticAMD */

    return leaf_of(0, 0).b != of_amd;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

#define ISA_LIST(X)                                                                                \
    X("ref", kernels_ref, always_available)                                                        \
    X("neon", kernels_neon, has_dot_product)                                                       \
    X("neon-i8mm", kernels_neon_i8mm, has_i8mm)
extern const struct kernels kernels_neon, kernels_neon_i8mm;

static bool has_dot_product(void)
{
    const unsigned long asimddp = 1ul << 20; /* HWCAP_ASIMDDP */

    return (getauxval(AT_HWCAP) & asimddp) != 0;
}

static bool has_i8mm(void)
{
    const unsigned long i8mm = 1ul << 13; /* HWCAP2_I8MM */

    return has_dot_product() && (getauxval(AT_HWCAP2) & i8mm) != 0;
}

#else
#define ISA_LIST(X) X("ref", kernels_ref, always_available)
#endif

static bool always_available(void)
{
    return true;
}

#if !defined(__x86_64__)
bool kernels_want_prefetch(void)
{
    return true;
}
#endif

static const struct {
    const char *name;
    const struct kernels *kernels;
    bool (*is_available)(void);
} isas[] = {
#define ISA_ROW(name, table, is_available) {name, &table, is_available},
    ISA_LIST(ISA_ROW)
#undef ISA_ROW
};
enum { N_ISAS = sizeof(isas) / sizeof(isas[0]) };
_Static_assert((int)N_ISAS <= (int)KERNEL_ISAS_MAX, "KERNEL_ISAS_MAX holds all ISAs");

int kernels_available(const struct kernels *out[KERNEL_ISAS_MAX])
{
    int n = 0;

    for (int i = 0; i < N_ISAS; i++)
        if (isas[i].is_available())
            out[n++] = isas[i].kernels;
    return n;
}

static enum osp_status fail_unknown(const char *isa)
{
    char here[128] = "";
    const struct kernels *tables[KERNEL_ISAS_MAX];
    const int n = kernels_available(tables);

    for (int i = 0; i < n; i++) {
        strncat(here, i == 0 ? "" : ", ", sizeof(here) - strlen(here) - 1);
        strncat(here, tables[i]->name, sizeof(here) - strlen(here) - 1);
    }
    for (int i = 0; i < N_ISAS; i++)
        if (strcmp(isas[i].name, isa) == 0)
            return fail(OSP_EINVAL, "CPU features \"%s\": not supported by this CPU, which has %s",
                        isa, here);
    return fail(OSP_EINVAL, "CPU features \"%s\": unknown ISA; this CPU has %s", isa, here);
}

enum osp_status kernels_select(const struct kernels **out, const char *isa)
{
    const struct kernels *tables[KERNEL_ISAS_MAX];
    const int n = kernels_available(tables);

    if (isa == NULL || isa[0] == '\0')
        isa = getenv("OSPREY_CPU_FEATURES");
    if (isa == NULL || isa[0] == '\0') {
        *out = tables[n - 1];
        return OSP_OK;
    }
    for (int i = 0; i < n; i++)
        if (strcmp(tables[i]->name, isa) == 0) {
            *out = tables[i];
            return OSP_OK;
        }
    return fail_unknown(isa);
}
