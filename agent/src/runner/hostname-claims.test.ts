// A runner and a daemon exchange hostname claims through the attempt's folder; covers every possible answer without a
// control plane, whose decisions are tested elsewhere.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AssignmentSchema,
  ClaimHostsResponseSchema,
  EnvironmentType,
  FailureCode,
  HostVerdict,
  TaskSpecSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { status as Status } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../clock.ts'
import { attemptPaths } from '../journal/attempt-files.ts'
import { answerHosts } from '../journal/hostname-files.ts'
import { answerHostClaims, type HostClaimsOptions } from '../link/hostname-claims.ts'
import { silentLog } from '../log.ts'
import { attemptDir, readSettings } from '../settings.ts'
import { Interrupted, type StepFailure } from './failure.ts'
import { claimHosts } from './hostname-claims.ts'

let stateDir: string
let stop: () => void = () => undefined
const said: string[] = []
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'berth-hosts-'))
  mkdirSync(dir(), { recursive: true })
  said.length = 0
})
afterEach(() => {
  stop()
  rmSync(stateDir, { recursive: true, force: true })
})

const dir = (): string => attemptDir({ stateDir }, 'a1')
const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const claimant = (type: EnvironmentType = EnvironmentType.MANUAL) => ({
  settings: { stateDir },
  assignment: create(AssignmentSchema, { attemptId: 'a1', fence: 3n }),
  spec: create(TaskSpecSchema, {
    environment: { identifier: 'pr-7', host: 'pr-7.shop.dev', grantedHosts: ['held.dev'], type },
  }),
  output: { say: (text: string) => void said.push(text) },
  interruption: { wait },
})
const failure = (asked: Promise<void>): Promise<StepFailure> =>
  asked.then(
    () => {
      throw new Error('it was granted')
    },
    (error: StepFailure) => error,
  )

/** The daemon's half, with `claim` in place of the control plane. */
function daemon(claim: HostClaimsOptions['claim']): void {
  const part = {
    journal: { attempts: { find: () => ({ fence: 3n }) } },
    manager: { liveIds: () => ['a1'], onChange: () => () => undefined },
  } as unknown as Pick<HostClaimsOptions, 'journal' | 'manager'>
  const settings = readSettings({ BERTH_STATE_DIR: stateDir })
  stop = answerHostClaims({ ...part, settings, clock: systemClock, log: silentLog, claim })
}
const answer = (...claims: { host: string; verdict: HostVerdict; message?: string }[]) =>
  create(ClaimHostsResponseSchema, { claims })

test('what is held needs nobody; the rest is asked for once, in its one form', async () => {
  await claimHosts(claimant(), ['pr-7.shop.dev', 'Held.dev.'], 0)
  const asked: unknown[] = []
  daemon(async (attemptId, fence, hosts) => {
    asked.push([attemptId, fence, hosts])
    return answer(...hosts.map((host) => ({ host, verdict: HostVerdict.GRANTED })))
  })
  await claimHosts(claimant(), ['B.dev', 'b.dev.', 'bücher.dev', 'held.dev'])
  expect(asked).toEqual([['a1', 3n, ['b.dev', 'xn--bcher-kva.dev']]])
  await claimHosts(claimant(), ['b.dev']) // another question, so the previous answer does not count
  expect(asked).toHaveLength(2)
})

test('a call that fails on its way is tried again', async () => {
  let tries = 0
  daemon(async (_, __, [host = '']) => {
    tries += 1
    if (tries === 1) throw Object.assign(new Error('away'), { code: Status.UNAVAILABLE })
    if (said.length === 0) throw new Error('there is no session') // until the runner says that it waits
    return answer({ host, verdict: HostVerdict.GRANTED })
  })
  await claimHosts(claimant(), ['b.dev'])
  expect(tries).toBeGreaterThan(2)
  expect(said).toContain('New host b.dev: waiting for the control plane to confirm.')
})

test.each([
  [Status.PERMISSION_DENIED, 'It is not an attempt of this agent.'],
  [Status.FAILED_PRECONDITION, 'The attempt is over.'],
  [Status.UNIMPLEMENTED, 'This control plane does not offer it yet.'],
])('a refusal for good (%i) is one', async (code, details) => {
  daemon(async () => {
    throw Object.assign(new Error(details), { code, details })
  })
  const { code: reported, message } = await failure(claimHosts(claimant(), ['b.dev']))
  expect(reported).toBe(FailureCode.CONTROL_PLANE_UNREACHABLE)
  expect(message).toBe(`New host b.dev could not be confirmed: ${details}`)
})

test('every refused name is told; what nobody knows is no grant', async () => {
  daemon(async () =>
    answer(
      { host: 'a.dev', verdict: HostVerdict.TAKEN, message: 'a.dev is used by shop / staging.' },
      { host: 'b.dev', verdict: 99 as HostVerdict },
      { host: 'c.dev', verdict: HostVerdict.GRANTED },
    ),
  )
  const pullRequest = claimant(EnvironmentType.PULL_REQUEST)
  const asked = claimHosts(pullRequest, ['a.dev', 'b.dev', 'c.dev', 'd.dev'])
  const { code, message, isCheck } = await failure(asked)
  expect([code, isCheck]).toEqual([FailureCode.DOMAIN_IN_USE, true])
  expect(message).toBe(
    'a.dev is used by shop / staging. b.dev was not granted by the control plane. ' +
      'd.dev was not granted by the control plane. ' +
      `Every pull request wants this name: put \${SERVICE_ENV_IDENTIFIER} into the domain.`,
  )
})

test('nobody answers, an answer is damaged or another one: it waits, and gives up in the end', async () => {
  writeFileSync(attemptPaths(dir()).hostsAnswer, '{"id":')
  answerHosts(dir(), { id: 'another', claims: [], refused: '' })
  const late = await failure(claimHosts(claimant(), ['b.dev', 'c.dev'], 120))
  expect(late.code).toBe(FailureCode.CONTROL_PLANE_UNREACHABLE)
  expect(late.message).toBe('New hosts b.dev, c.dev could not be confirmed for 0 min.')
})

test('a stop ends the wait; too many names are not asked for', async () => {
  const stopped = { ...claimant(), interruption: { wait: () => Promise.reject(new Interrupted()) } }
  await expect(claimHosts(stopped, ['b.dev'])).rejects.toThrow(Interrupted)
  const hosts = Array.from({ length: 65 }, (_, n) => `h${n}.dev`)
  expect((await failure(claimHosts(claimant(), hosts))).code).toBe(FailureCode.CONFIG_INVALID)
})
