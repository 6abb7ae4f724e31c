// `artifact`: the bytes of one stored file of this environment, unchanged: they carry a hash. Gone, expired or changed
// is said in a sentence, never by an empty file.
import { openArtifact } from '../exec/artifact-store.ts'
import type { AgentSettings } from '../settings.ts'
import type { Ending } from './frames.ts'
import type { Scene } from './scene.ts'
import { type Work, withoutInput } from './verb-work.ts'
import { NOT_AVAILABLE, type Verb } from './verbs.ts'
import type { Output } from './work.ts'

export function startArtifact(
  settings: AgentSettings,
  { environmentId }: Scene,
  { artifactId, offset }: Extract<Verb, { verb: 'artifact' }>,
  output: Output,
): Work {
  const stop = new AbortController()
  const send = async (): Promise<Ending> => {
    const found = await openArtifact(settings, { environmentId, artifactId, offset })
    if (found.kind !== 'ok') return { code: NOT_AVAILABLE, message: found.message }
    await output.write('errors', Buffer.from(`size=${found.size} sha256=${found.sha256}\n`))
    for await (const chunk of found.stream as AsyncIterable<Buffer>) {
      await output.write('data', chunk)
      if (stop.signal.aborted) break
    }
    return { code: 0 }
  }
  return withoutInput(send(), stop)
}
