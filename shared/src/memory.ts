// Memory of bytes that only pass through. The collector of garbage counts it, and walks through everything for every 64 MiB
// of it: for a file of a gigabyte that costs more than encryption and digest together. So it is given back by hand.

/**
 * For whoever has the only reference and is done with it: the buffer is empty afterwards. One that shares its memory with
 * others, as small ones do, is left alone.
 */
export function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer?.(0)
}
