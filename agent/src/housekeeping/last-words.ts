// The log of a container dies with it: before housekeeping removes one, what is not in its service's log yet is written
// there. Masked with every value that the container was given, since nobody is here who knows which are secret.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '../exec/docker/engine.ts'
import { readLogsToEnd } from '../exec/docker/logs.ts'
import { environmentPlaces } from '../exec/files.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { parseShellFile } from '../recipes/variable-files.ts'
import { Masker } from '../runner/mask.ts'
import type { AgentSettings } from '../settings.ts'
import { lastLineAt, ServiceLog } from '../supervise/service-log.ts'

function readValues(file: string): Buffer[] {
  const values = [...parseShellFile(readFileSync(file, 'utf8')).values()]
  return values.filter((value) => value.length > 0).map((value) => Buffer.from(value))
}

/** Of a container that runs no more. Without its variable file its log is not kept: nobody could mask it. */
export async function keepLastWords(
  engine: Engine,
  settings: AgentSettings,
  { environmentId, service, taskId }: ObjectRow,
  containerId: string,
): Promise<void> {
  const places = environmentPlaces(settings, environmentId)
  const values = readValues(join(places.variables, `${taskId}-${service}.sh`))
  const dir = join(places.logs, service)
  const since = lastLineAt(dir, taskId)
  let now = new Date()
  const log = new ServiceLog(dir, taskId, new Masker(values), () => now)
  try {
    await readLogsToEnd(engine, containerId, {
      onRecord: ({ stream, at, bytes }) => {
        const time = new Date(at)
        if (since !== undefined && time.toISOString() <= since) return
        now = time
        log.write(stream, bytes)
      },
    })
  } finally {
    log.close()
  }
}
