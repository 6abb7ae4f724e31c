// Masks the environment's values in the output of a session, for each stream.
import type { Masker } from '../../machine/masking/mask.ts'
import type { Output } from './output.ts'

export interface MaskedOutput extends Output {
  /** Flushes what was held back. */
  end(): Promise<void>
}

/** For files, whose bytes must arrive unchanged: masks only what is said about them. */
export function fileOutput(masker: Masker, output: Output): MaskedOutput {
  const errors = masker.source()
  return {
    write: (kind, bytes) => output.write(kind, kind === 'data' ? bytes : errors.push(bytes)),
    end: () => output.write('errors', errors.end()),
  }
}

export function maskedOutput(masker: Masker, output: Output): MaskedOutput {
  const streams = { data: masker.source(), errors: masker.source() }
  return {
    write: (kind, bytes) => output.write(kind, streams[kind].push(bytes)),
    async end() {
      for (const kind of ['data', 'errors'] as const) await output.write(kind, streams[kind].end())
    },
  }
}
