#include "engine/device_settings.h"

/* X(member, name): options that osp_model_options has as members, too. */
#define MEMBER_LIST(X)                                                                             \
    X(mxfp4_activation, "mxfp4-activation")                                                        \
    X(mxfp4_backend, "mxfp4-backend")                                                              \
    X(attention_backend, "attention-backend")                                                      \
    X(moe_tile, "moe-tile")

static void add(struct device_settings *s, const char *name, const char *value)
{
    if (value != NULL)
        s->list[s->n++] = (struct device_option){.name = name, .value = value};
}

enum osp_status device_settings_make(struct device_settings *out,
                                     const struct osp_model_options *opt)
{
    const int n = opt->n_device_options;
    struct device_options options;

    *out = (struct device_settings){.n = 0};
    if (n < 0 || n > OSP_DEVICE_OPTIONS_MAX || (n > 0 && opt->device_options == NULL))
        return fail(OSP_EINVAL, "n_device_options is %d, must be between 0 and %d", n,
                    OSP_DEVICE_OPTIONS_MAX);
#define ADD_MEMBER(member, name) add(out, name, opt->member);
    MEMBER_LIST(ADD_MEMBER)
#undef ADD_MEMBER
    for (int i = 0; i < n; i++) {
        if (opt->device_options[i].name == NULL)
            return fail(OSP_EINVAL, "device_options[%d] has no name", i);
        add(out, opt->device_options[i].name, opt->device_options[i].value);
    }
    options = device_settings_options(out);
    return device_options_check(&options, opt->device);
}

struct device_options device_settings_options(const struct device_settings *s)
{
    return (struct device_options){.n = s->n, .list = s->list};
}

bool osp_device_option_get(int i, struct osp_device_option_info *out)
{
    const char *device;
    const struct device_option_row *row = device_option_at(i, &device);

    if (row == NULL)
        return false;
    *out = (struct osp_device_option_info){.device = device,
                                           .name = row->name,
                                           .aliases = row->aliases,
                                           .metavar = row->metavar,
                                           .initial = row->initial,
                                           .values = row->values,
                                           .help = row->help};
    return true;
}
