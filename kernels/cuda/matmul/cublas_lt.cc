#include "kernels/cuda/matmul/cublas_lt.h"

#include "base/check.h"

#if KVGATE_CUDA_EMULATED

namespace kvgate::kernels::cuda::matmul {

Result<std::unique_ptr<CublasLt>> CublasLt::Open(device::CommandStream&) {
  return MakeError(ErrorCode::kUnsupported, "kernels.cuda",
                   "fast numerics need libcublasLt, which an emulated device cannot run");
}

}  // namespace kvgate::kernels::cuda::matmul

#else

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::matmul {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as NVIDIA recommends for Hopper
constexpr size_t kPlansMax = 1024;
constexpr const char* kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// Holds the library's functions. Their types are those of the header; versions 12 and 13 agree.
struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_desc = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_desc = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;

  // Returns false if a function is missing.
  bool Find(void* library) {
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(create, "cublasLtCreate") && find(destroy, "cublasLtDestroy") &&
           find(matmul, "cublasLtMatmul") &&
           find(get_heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
           find(create_desc, "cublasLtMatmulDescCreate") &&
           find(destroy_desc, "cublasLtMatmulDescDestroy") &&
           find(set_desc, "cublasLtMatmulDescSetAttribute") &&
           find(create_layout, "cublasLtMatrixLayoutCreate") &&
           find(destroy_layout, "cublasLtMatrixLayoutDestroy") &&
           find(create_preference, "cublasLtMatmulPreferenceCreate") &&
           find(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
           find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  }
};

void Check(cublasStatus_t status, const char* doing) {
  KVGATE_CHECK(status == CUBLAS_STATUS_SUCCESS,
               fmt::format("cublasLt: {}: status {}", doing, static_cast<int>(status)).c_str());
}

// The precomputed plan for products of one shape.
struct Plan {
  const Functions* functions = nullptr;
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t sums = nullptr;
  cublasLtMatmulAlgo_t algo{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (sums != nullptr) functions->destroy_layout(sums);
    if (x != nullptr) functions->destroy_layout(x);
    if (weight != nullptr) functions->destroy_layout(weight);
    if (desc != nullptr) functions->destroy_desc(desc);
  }
};

// The shape is stored beside the plan, so that equal arguments mean equal products.
struct PlannedProduct {
  const Plan* plan;
  CublasProduct product;
};

void RunProduct(const PlannedProduct& planned, cudaStream_t stream) {
  const Plan& plan = *planned.plan;
  const CublasProduct& product = planned.product;
  const float one = 1;
  const float zero = 0;
  Check(plan.functions->matmul(plan.handle, plan.desc, &one, product.weight, plan.weight, product.x,
                               plan.x, &zero, product.sums, plan.sums, product.sums, plan.sums,
                               &plan.algo, plan.workspace, kWorkspaceBytes, stream),
        "multiply");
}

class LoadedCublasLt final : public CublasLt {
 public:
  LoadedCublasLt(const Functions& functions, memory::DeviceMemory workspace,
                 device::CommandStream& stream)
      : functions_(functions), workspace_(std::move(workspace)), stream_(stream) {
    Check(functions_.create(&handle_), "begin");
  }
  ~LoadedCublasLt() override {
    stream_.Synchronize();
    plans_.clear();
    functions_.destroy(handle_);
  }

  void Note(const CublasProduct& product) override {
    const Shape shape{product.num_rows, product.num_outputs, product.columns,
                      product.x_row_columns};
    if (plans_.size() >= kPlansMax && !plans_.contains(shape)) {
      stream_.Synchronize();
      plans_.clear();
    }
    std::unique_ptr<Plan>& plan = plans_[shape];
    if (plan == nullptr) plan = MakePlan(product);
    stream_.Call(&RunProduct, PlannedProduct{.plan = plan.get(), .product = product});
  }

 private:
  using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t>;

  // The library is column-major: the row-major sums [M, N] are its [N, M], and so on.
  std::unique_ptr<Plan> MakePlan(const CublasProduct& product) {
    auto plan = std::make_unique<Plan>();
    plan->functions = &functions_;
    plan->handle = handle_;
    plan->workspace = workspace_.data();
    Check(functions_.create_desc(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Check(functions_.set_desc(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                              sizeof(transposed)),
          "describe");
    const auto layout = [this](cublasLtMatrixLayout_t* made, cudaDataType type, int64_t rows,
                               int64_t columns, int64_t stride) {
      Check(functions_.create_layout(made, type, static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), stride),
            "describe a matrix");
    };
    layout(&plan->weight, CUDA_R_16F, product.columns, product.num_outputs, product.columns);
    layout(&plan->x, CUDA_R_16F, product.columns, product.num_rows, product.x_row_columns);
    layout(&plan->sums, CUDA_R_32F, product.num_outputs, product.num_rows, product.num_outputs);
    cublasLtMatmulPreference_t preference = nullptr;
    Check(functions_.create_preference(&preference), "choose");
    const uint64_t workspace_bytes = kWorkspaceBytes;
    Check(functions_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                    &workspace_bytes, sizeof(workspace_bytes)),
          "choose");
    cublasLtMatmulHeuristicResult_t found{};
    int num_found = 0;
    Check(functions_.get_heuristic(handle_, plan->desc, plan->weight, plan->x, plan->sums,
                                   plan->sums, preference, 1, &found, &num_found),
          "choose");
    Check(functions_.destroy_preference(preference), "choose");
    KVGATE_CHECK(num_found == 1, "cublasLt multiplies f16 into f32");
    plan->algo = found.algo;
    return plan;
  }

  const Functions functions_;
  const memory::DeviceMemory workspace_;
  device::CommandStream& stream_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::Open(device::CommandStream& stream) {
  for (const char* name : kLibraries) {
    // The library stays loaded, because unloading such a library is risky.
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    Functions functions;
    if (library == nullptr || !functions.Find(library)) continue;
    KVGATE_TRY(memory::DeviceMemory workspace,
               memory::DeviceMemory::Allocate(kWorkspaceBytes, "workspace of cublasLt"));
    return std::unique_ptr<CublasLt>(
        std::make_unique<LoadedCublasLt>(functions, std::move(workspace), stream));
  }
  return MakeError(ErrorCode::kUnsupported, "kernels.cuda",
                   fmt::format("fast numerics need {} or {}, and neither can be loaded; invariant "
                               "numerics need no library",
                               kLibraries[0], kLibraries[1]));
}

}  // namespace kvgate::kernels::cuda::matmul

#endif
