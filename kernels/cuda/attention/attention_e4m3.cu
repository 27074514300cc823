#include "kernels/cuda/attention/attention_kernels.cuh"

namespace kvgate::kernels::cuda::attention {

AttentionKernels E4m3AttentionKernels(int head_dim, size_t shared_bytes_max) {
  return AttentionKernelsOf<E4m3Kv>(head_dim, shared_bytes_max);
}

}  // namespace kvgate::kernels::cuda::attention
