// Warms up the code paths of an attempt while the runner waits for one, and leaves nothing behind: the first time a
// process reads a service file, writes an event, calls the engine or starts a program takes ten times as long as the
// next. What fails here is done by the attempt.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkRepositoryUrl } from '@berth/shared'
import { readServiceFile, routes } from '@berth/shared/service-file'
import { AssignmentSchema, AttemptState, LogSource, StepState } from '@berth/shared/wire'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { EventFileWriter } from '../journal/event-file.ts'
import { Ledger } from '../journal/ledger.ts'
import { warmUpBuildSession } from '../machine/docker/build/warm-up.ts'
import { type EngineFacts, engineFacts, openEngine } from '../machine/docker/engine.ts'
import { withGitSession } from '../machine/git/session.ts'
import { loadPty } from '../machine/process/commands.ts'
import { runProgram } from '../machine/process/programs.ts'
import { findAccount } from '../machine/users/users.ts'
import { openEdge } from '../proxy/client.ts'
import type { AgentSettings } from '../settings.ts'
import { SpoolWriter } from '../spool/writer.ts'
import { planDocker, planDockerCheckout } from './docker/plan.ts'
import { Output } from './output.ts'
import { Reporter } from './report.ts'

const SERVICE_FILE = 'version: 1\ndocker:\n  services:\n    web: { build: ., port: 80 }\n'
/** As long as a deploy key, whose lines are searched for in all output. */
const KEY = Buffer.from(Array.from({ length: 6 }, (_, i) => `${i} warm-up `.repeat(6)).join('\n'))
const FACTS = { domain: 'a.example', identifier: 'a', type: 'manual', branch: 'main' } as const

function warmUpFile(report: Reporter): void {
  const { file } = readServiceFile(Buffer.from(SERVICE_FILE))
  if (!file?.docker) return
  routes(file, 'docker', FACTS)
  report.plan(planDocker(file.docker, undefined))
}

/** Writes events and output like an attempt. */
function warmUpReport(folder: string): void {
  const assignment = create(AssignmentSchema, { attemptId: 'warm-up', spec: {} })
  const events = EventFileWriter.create(join(folder, 'events'))
  const spool = SpoolWriter.create(join(folder, 'log'))
  const output = new Output({ spool, now: () => performance.now(), nowUs: () => 0 })
  for (let i = 0; i < 3; i += 1) output.setValues([KEY]) // the first call compiles it, the next ones optimize it
  const read = fromBinary(AssignmentSchema, toBinary(AssignmentSchema, assignment))
  const report = new Reporter(events, read, (text) => output.maskText(text))
  output.setStep(0)
  output.say('Warm-up.')
  output.write(LogSource.STDERR, Buffer.from('Warm-up.\n'))
  output.tick()
  report.plan(planDockerCheckout())
  report.attempt({ state: AttemptState.RUNNING })
  report.step({ stepId: 'admit', state: StepState.SUCCEEDED, firstLogSeq: 1n })
  warmUpFile(report)
  output.finish()
  events.close()
}

/** What the engine recently reported about itself; constant while the engine runs. */
export const remembered: { engine?: EngineFacts } = {}

async function warmUpEngine(settings: AgentSettings, folder: string): Promise<void> {
  if (!existsSync(settings.dockerSocket)) return
  writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\n')
  remembered.engine = await engineFacts(openEngine(settings))
  await warmUpBuildSession(folder)
}

/** Everything of a fetch except git. */
async function warmUpFetch(settings: AgentSettings, folder: string): Promise<void> {
  const address = checkRepositoryUrl('https://git.example/a/b.git', {
    allowFile: false,
    allowLoopbackHttp: false,
  })
  if (!address.ok) throw new Error(address.problem)
  const request = {
    settings,
    scratch: folder,
    account: undefined,
    attemptId: 'warm-up',
    repository: folder,
    address: address.value,
    projectId: 0,
    deployKey: KEY,
    knownHosts: [],
    signal: new AbortController().signal,
    onText: () => undefined,
  }
  await withGitSession(request, async () => undefined)
  await findAccount('root')
  await runProgram(['true'])
}

/** Returns what failed, and why. */
export async function warmUp(settings: AgentSettings): Promise<string[]> {
  const problems: string[] = []
  const folder = mkdtempSync(join(settings.runDir, 'warm-up-'))
  const clear = (): void => rmSync(folder, { recursive: true, force: true })
  process.once('exit', clear) // also when the process exits while an unresponsive engine blocks the warm-up
  const parts = [
    loadPty,
    () => warmUpReport(folder),
    () => new Ledger(settings).close(),
    () => warmUpEngine(settings, folder),
    () => warmUpFetch(settings, folder),
    () => openEdge(settings).describe(),
  ]
  try {
    for (const part of parts) {
      try {
        await part()
      } catch (error) {
        problems.push((error as Error).message) // no engine or edge here, or a full disk
      }
    }
  } finally {
    process.off('exit', clear)
    clear()
  }
  return problems
}
