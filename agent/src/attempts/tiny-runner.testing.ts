// Test support: a minimal runner, started like the real one (`<program> runner <dir>`). The branch of its assignment
// selects its behaviour. It communicates through the same files as the real runner.
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import {
  AssignmentSchema,
  AttemptState,
  EventSchema,
  FailureCode,
  LogSource,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf'
import { attemptPaths, takeClaim } from '../journal/attempt-files.ts'
import { EventFileWriter } from '../journal/event-file.ts'
import { readOrder, readSecretsFrame } from '../journal/secrets-pipe.ts'
import { readBootId } from '../machine/process/processes.ts'
import { SpoolWriter } from '../spool/writer.ts'

const given = process.argv[3]
process.on('SIGUSR2', () => {})
const order = given
  ? { dir: given, secrets: await readSecretsFrame(process.stdin) }
  : await readOrder(process.stdin)
if (!order) process.exit(0)
const { dir, secrets } = order
const paths = attemptPaths(dir)
const assignment = fromBinary(AssignmentSchema, readFileSync(paths.spec))
const behaviour = assignment.spec?.environment?.branch ?? ''

if (behaviour === 'exit-before-claim') process.exit(1)
if (!takeClaim(dir, 'runner', readBootId())) process.exit(0)

const events = EventFileWriter.create(paths.events)
const spool = SpoolWriter.create(paths.log)
type Body = NonNullable<MessageInitShape<typeof EventSchema>['body']>
const emit = (body: Body): void => {
  // another attempt's id, which the daemon must not believe
  events.append(create(EventSchema, { attemptId: 'forged', fence: 99n, body }), { sync: true })
}
const print = (text: string): void => {
  spool.append(Date.now() * 1_000, LogSource.STDOUT, 0, Buffer.from(text))
  spool.flush()
}
const end = (state: AttemptState, code = FailureCode.UNSPECIFIED): void => {
  const { finalSeq } = spool.finish()
  emit({ case: 'attempt', value: { state, code, finalLogSeq: BigInt(finalSeq) } })
  process.exit(0)
}

print('hello\n')
emit({ case: 'attempt', value: { state: AttemptState.RUNNING } })
emit({
  case: 'warning',
  value: { code: 'secrets', message: `${secrets.variables.length} variables` },
})
if (behaviour === 'succeed') end(AttemptState.SUCCEEDED)
if (behaviour === 'loud') for (let i = 0; i < 5_000; i++) print(`line ${i} ${'x'.repeat(80)}\n`)
for (;;) {
  if (existsSync(paths.stop)) {
    emit({ case: 'attempt', value: { state: AttemptState.CANCELING } })
    end(AttemptState.CANCELED)
  }
  if (existsSync(`${dir}/finish`)) end(AttemptState.SUCCEEDED)
  await delay(10)
}
