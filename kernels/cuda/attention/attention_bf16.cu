#include "kernels/cuda/attention/attention_kernels.cuh"

namespace kvgate::kernels::cuda::attention {

AttentionKernels Bf16AttentionKernels(int head_dim, size_t shared_bytes_max) {
  return AttentionKernelsOf<Bf16Kv>(head_dim, shared_bytes_max);
}

}  // namespace kvgate::kernels::cuda::attention
