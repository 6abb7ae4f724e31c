// The log of a container dies with it: before one is removed, what is not in its service's log yet is written there,
// masked, with the time of the engine. Housekeeping, which does not know which values are secret, masks all of them.
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

/**
 * Of a container that runs no more. Without `secrets` its variable file is read; where that is gone too its log is not
 * kept: nobody could mask it. False: not all of it could be read in time.
 */
export async function keepLastWords(
  engine: Engine,
  settings: AgentSettings,
  { environmentId, service, taskId }: ObjectRow,
  containerId: string,
  secrets?: Buffer[],
): Promise<boolean> {
  const places = environmentPlaces(settings, environmentId)
  const values = secrets ?? readValues(join(places.variables, `${taskId}-${service}.sh`))
  const dir = join(places.logs, service)
  const since = lastLineAt(dir, taskId)
  let now = new Date()
  const log = new ServiceLog(dir, taskId, new Masker(values), () => now)
  try {
    return await readLogsToEnd(engine, containerId, {
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
