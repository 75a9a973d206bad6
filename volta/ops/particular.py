"""Arguments of which PyTorch takes more or less than their annotation says, by names of functions. `checks.py` reads these tables. Knows no
op."""
from __future__ import annotations


def _table(text):
    return {words[0]: set(words[1:]) for words in map(str.split, text.split(";"))}


# Which of the kinds of integers in `checks.py` an argument is, where it is none of the usual ones.
KINDS = {
    "symbol": _table("""as_strided storage_offset; as_strided_copy storage_offset; as_strided_scatter storage_offset; eye n m; kthvalue k;
                    channel_shuffle groups; conv1d groups; conv2d groups; conv3d groups; conv_transpose1d groups; conv_transpose2d groups;
                    conv_transpose3d groups; linalg_vander N; local_response_norm size; multinomial num_samples; narrow start length;
                    narrow_copy start length; native_group_norm N C HxW; nonzero_static size; pca_lowrank q; randint bounds low high;
                    randint_like bounds low high; randperm n; repeat_interleave repeats; select index; select_copy index;
                    select_scatter index; slice_copy start end step; slice_scatter start end step; split_copy split_size;
                    svd_lowrank q; topk k; tril diagonal; triu diagonal; unsafe_split split_size"""),
    "choice": _table("""all dim; any dim; count_nonzero dim; dsplit indices_or_sections; hsplit indices_or_sections;
                    vsplit indices_or_sections"""),
    "number": _table("""max_unpool1d kernel_size stride padding; max_unpool2d kernel_size stride padding;
                    max_unpool3d kernel_size stride padding; unfold kernel_size dilation padding stride"""),
    "pythons": _table("split split_size_or_sections")}
# Functions of which the second argument may be a bool where it comes by position: it is another one then.
BY_PLACE = {"std", "std_mean", "var", "var_mean"}
# Flags that PyTorch's own functions are in Python for: anything is true or false there.
TRUTHS = {"add_zero_attn", "center", "get_infos", "hard", "inplace", "recompute_scale_factor", "reduce", "return_indices", "size_average",
          "use_separate_proj_weight"}
# By function: arguments that it judges itself, as its like in PyTorch does.
OWN = {"cdist": {"compute_mode"}, "embedding_bag": {"mode"}, "gaussian_nll_loss": {"full"}, "grid_sample": {"mode", "padding_mode"},
       "multi_head_attention_forward": {"training"}, "multi_margin_loss": {"p"}, "tensordot": {"dims"}}
# By function: arguments that may be left out but not be None.
GIVEN = {"cumulative_trapezoid": {"x"}, "eye": {"m"}, "max": {"dim_or_other", "dim", "keepdim"}, "median": {"dim"},
         "min": {"dim_or_other", "dim", "keepdim"}, "nanmedian": {"dim"}, "prod": {"dim"}, "scatter": {"reduce"}, "squeeze": {"dim"},
         "squeeze_copy": {"dim"}, "std": {"unbiased"}, "std_mean": {"unbiased"}, "trapezoid": {"x"}, "var": {"unbiased"},
         "var_mean": {"unbiased"}}
# Functions of which `keepdim` by name goes with a dimension, which may be None for some.
PAIRED = {"max", "mean", "median", "min", "nanmedian", "prod", "sum"}
