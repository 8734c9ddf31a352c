/* The model: validated config, bound weights, activations, KV pages, and the program of a step. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "backend/backend.h"
#include "model/config.h"
#include "model/draft.h"
#include "model/source.h"
#include "model/weights.h"

struct model;

struct model_options {
    const char *path; /* checkpoint folder; ignored with dummy_shape or source */
    /* An opened checkpoint. model_open() takes ownership and leaves *source empty; the caller calls
     * model_source_close() in any case. NULL: model_open() opens `path`. */
    struct model_source *source;
    /* An opened draft head for this model (draft.h), taken over like `source`; NULL: none. */
    struct draft_files *draft;
    int n_draft_states_kept;    /* rows of states that wait for the head: model_draft_keep() */
    const char *dummy_shape;    /* generate weights of this shape (dummy.h); NULL = read `path` */
    int dummy_layers;           /* of the shape; 0 = all */
    const char *device;         /* "auto" (and NULL), "cpu", "cuda" */
    const char *cpu_features;   /* ISA of the CPU's kernels; NULL or "" = the best */
    const char *cpu_affinity;   /* binding of the threads (base/bind.h); NULL = not bound */
    struct exchange *exchange;  /* with the ranks that have the other parts; NULL: one rank */
    int n_threads;              /* 0 = all usable */
    int n_rows_max;             /* T, rows of the largest step */
    int n_samples_max;          /* R, sampled rows of the largest step */
    int n_pages[N_PAGE_GROUPS]; /* pages of each pool (a page spans all layers of its group) */
    struct batch_counts edits;  /* of a step: seen ids, biases and mask words; other counts are 0 */
    int n_seq_pages_max;        /* pages in one sequence's tables, all groups; 0 = n_pages */
    enum dtype kv_dtype;   /* of the pages: F32, BF16, F8, I16; DTYPE_NONE = the device's default */
    bool no_sinks;         /* experiment: attention without sinks (all sinks are -inf) */
    int n_token_ids;       /* ids >= this have no text and are never sampled; 0 = vocab_size */
    unsigned mxfp4_layers; /* BF16 layers to quantize to MXFP4 (store/mxfp4_layers.h) */
    struct device_options device_options; /* checked by the caller; see device_options_check() */
    bool is_eager;                        /* no CUDA graphs; see backend_options */
    const char *pack_cache;     /* folder of packed weights, "on" or "off" (pack_cache.h) */
    load_progress_fn *progress; /* may be NULL; restarts at 0 for the packing phase */
    void *progress_ctx;
};

/* Opens checkpoint and device, binds everything, allocates activations and pages. */
CHECKED enum osp_status model_open(struct model **out, const struct model_options *opt);
void model_close(struct model *m); /* accepts NULL */

/* Of the whole model, also where this is one rank of several. */
const struct gptoss_config *model_config(const struct model *m);
/* Of this rank's part. */
const struct gptoss_config *model_part_config(const struct model *m);
const struct weights_report *model_weights_report(const struct model *m);
void model_device_info(const struct model *m, struct device_info *out);
int model_costs(const struct model *m, struct stage_cost *out, int n_max);
/* Forward to the backend's functions of these names; only between steps. */
CHECKED enum osp_status model_kernels(const struct model *m, struct kernel_use *out, int n_max,
                                      int *n);
CHECKED enum osp_status model_probe(struct model *m, struct probe *out);

/* Bytes of one page of that group over all its layers, that of a draft head included. */
int64_t model_page_bytes(const struct gptoss_config *c, enum page_group group, enum dtype kv_dtype);
/* The dtype of the KV pages. */
enum dtype model_kv_dtype(const struct model *m);

/* Bytes of activations that these limits need, besides the weights. */
int64_t model_activation_bytes(const struct gptoss_config *c, int n_rows_max, int n_samples_max);

/* The shape of the largest step of a model, or of a rank with this config, known before a device is
 * opened. counts.n_pages counts the tables of all sequences. The caller sets n_seq_pages and
 * n_threads. */
struct step_shape model_step_shape(const struct gptoss_config *c, struct batch_counts counts,
                                   enum dtype kv_dtype, struct device_options options);

/* Runs one step over the batch; results are read with model_tokens after model_wait. */
CHECKED enum osp_status model_step(struct model *m, const struct batch *b, uint64_t *ticket_out);
/* The same for a model with a draft head, which then finds the states of this step (draft.h). The
 * results are the same; a head that reads the last layer needs all of that layer's rows. */
CHECKED enum osp_status model_step_tapped(struct model *m, const struct batch *b,
                                          uint64_t *ticket_out);
CHECKED enum osp_status model_wait(struct model *m, uint64_t ticket);
/* Only between steps: copy a page of all layers of a group to another page, or to and from host
 * memory of model_page_bytes(). */
CHECKED enum osp_status model_page_copy(struct model *m, enum page_group group, int from, int to);
/* Slots of all layers of a group but a draft head's, which computes its own again, n moves one
 * after the other. */
CHECKED enum osp_status model_kv_move(struct model *m, enum page_group group,
                                      const struct kv_move *moves, int n);
CHECKED enum osp_status model_page_read(struct model *m, enum page_group group, int page,
                                        char *host);
CHECKED enum osp_status model_page_write(struct model *m, enum page_group group, int page,
                                         const char *host);
/* Whether the step has ended; only for devices with runs_pipelined. */
bool model_has_ended(struct model *m, uint64_t ticket);
/* The results of the step that was last waited for, valid until two more steps have been run; only
 * for devices with runs_pipelined. */
CHECKED enum osp_status model_sampled(struct model *m, struct sampled *out);
/* Copies the sampled tokens and log-probabilities of the last step, (R) each. */
CHECKED enum osp_status model_tokens(struct model *m, int n_samples, int32_t *tokens,
                                     float *logprobs);
/* Copies the likeliest ids of the last step and their log-probabilities, (R, TOP_LOGPROBS_MAX)
 * each; valid for samples with n_top > 0. */
CHECKED enum osp_status model_top_logprobs(struct model *m, int n_samples, int32_t *tokens,
                                           float *logprobs);
/* Copies the logits of the last step, (R, V) floats; for tests and tools. */
CHECKED enum osp_status model_logits(struct model *m, int n_samples, float *logits);

#endif
