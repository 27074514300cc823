// Measures the limits of this machine, relative to which performance is reported. Each call takes
// less than a second.
#pragma once

namespace kvgate::kernels::cpu {

// Returns the bytes per second that num_threads threads read from memory together: the best of
// several passes over 512 MiB. Returns 0 if that much memory is not available.
double MeasureReadBandwidth(int num_threads);

// Returns the f32 operations per second of num_threads threads together on the best SIMD target,
// where a fused multiply-add counts as two: the best of several passes over registers.
double MeasureFmaPeak(int num_threads);

// Returns the int8 operations per second of num_threads threads together in AMX tiles; 0 without
// AMX.
double MeasureTilePeak(int num_threads);

}  // namespace kvgate::kernels::cpu
