// The log of a container dies with it: before it is removed, everything that is not in the service's log yet is written
// there, masked, line by line with the time of the engine.
import { join } from 'node:path'
import { readLogsToEnd } from '../exec/docker/logs.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { lastLineAt, ServiceLog } from '../supervise/service-log.ts'
import type { Attempt } from './attempt.ts'
import { dockerOf } from './docker-scene.ts'
import { Masker } from './mask.ts'
import { lastSecrets } from './steps/destroy.ts'

export async function keepLog(attempt: Attempt, row: ObjectRow, id: string): Promise<void> {
  const { places, found, secrets, output } = attempt
  const dir = join(places.logs, row.service)
  const values: Buffer[] = secrets.variables.map(({ value }) => Buffer.from(value))
  if (found.last) values.push(...lastSecrets(places, found.last))
  const since = lastLineAt(dir, row.taskId)
  let now = new Date()
  const log = new ServiceLog(dir, row.taskId, new Masker(values), () => now)
  try {
    const isWhole = await readLogsToEnd(dockerOf(attempt).engine, id, {
      onRecord: ({ stream, at, bytes }) => {
        const time = new Date(at)
        if (since !== undefined && time.toISOString() <= since) return
        now = time
        log.write(stream, bytes)
      },
    })
    if (!isWhole) output.say(`Warning: not all of the log of ${row.name} could be read.`)
  } finally {
    log.close()
  }
}
