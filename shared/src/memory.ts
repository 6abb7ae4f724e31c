// Frees the memory of bytes that only pass through. The garbage collector counts it and runs a full cycle for every 64
// MiB: for a file of a gigabyte that costs more than encryption and digest together.

/**
 * The caller must hold the only reference; the buffer is empty afterwards. A buffer that shares its memory with others,
 * as small ones do, is left alone.
 */
export function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer?.(0)
}
