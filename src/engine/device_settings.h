/* The device options of struct osp_model_options as one checked list: the members that have a
 * name of their own first, then device_options. */
#ifndef ENGINE_DEVICE_SETTINGS_H
#define ENGINE_DEVICE_SETTINGS_H

#include "engine/core/model_api.h"

/* Borrows the strings of `opt`. OSP_EINVAL and OSP_EUNSUPPORTED name option, value and allowed
 * values. */
CHECKED enum osp_status device_settings_make(struct device_settings *out,
                                             const struct osp_model_options *opt);

/* As the layers below take it; borrows `s`. */
struct device_options device_settings_options(const struct device_settings *s);

#endif
