// Step claim-hosts: the control plane decides which hostnames this environment may serve. A runner cannot reach it, so
// it writes the question to its attempt's folder; the daemon (link/hostname-claims.ts) asks and writes the answer.
// Hostnames that the environment already holds need no question, so redeployments work while the control plane is down.
import { randomUUID } from 'node:crypto'
import { HOST_CLAIMS } from '@berth/shared'
import { normalizeHost } from '@berth/shared/service-file'
import { EnvironmentType, FailureCode, type TaskSpec } from '@berth/shared/wire'
import { askForHosts, type HostAnswer, readHostAnswer } from '../journal/hostname-files.ts'
import { attemptDir } from '../settings.ts'
import type { Attempt } from './attempt.ts'
import { StepFailure } from './failure.ts'

/** The parts of an attempt that are needed here. */
interface Claimant extends Pick<Attempt, 'assignment' | 'spec'> {
  settings: Pick<Attempt['settings'], 'stateDir'>
  output: Pick<Attempt['output'], 'say'>
  interruption: Pick<Attempt['interruption'], 'wait'>
}

/** Resolves when every hostname may be served; otherwise throws a StepFailure with the reason. */
export async function claimHosts(
  attempt: Claimant,
  hosts: readonly string[],
  waitMs: number = HOST_CLAIMS.waitMs,
): Promise<void> {
  const { environment } = attempt.spec
  const held = new Set([environment?.host ?? '', ...(environment?.grantedHosts ?? [])])
  const wanted = [...new Set(hosts.map(normalizeHost))].filter((host) => !held.has(host))
  if (wanted.length === 0) return
  if (wanted.length > HOST_CLAIMS.hosts) {
    throw new StepFailure(
      FailureCode.CONFIG_INVALID,
      `${wanted.length} new host names are wanted at once; at most ${HOST_CLAIMS.hosts} are possible.`,
    )
  }
  const answer = await ask(attempt, wanted, waitMs)
  if (answer.refused) {
    throw new StepFailure(
      FailureCode.CONTROL_PLANE_UNREACHABLE,
      `${named(wanted)} could not be confirmed: ${answer.refused}`,
    )
  }
  judge(attempt.spec, wanted, answer)
  for (const host of wanted) attempt.output.say(`${host} belongs to this environment.`)
}

const named = (hosts: readonly string[]): string =>
  `New ${hosts.length === 1 ? 'host' : 'hosts'} ${hosts.join(', ')}`

async function ask(attempt: Claimant, hosts: string[], waitMs: number): Promise<HostAnswer> {
  const dir = attemptDir(attempt.settings, attempt.assignment.attemptId)
  const id = randomUUID()
  askForHosts(dir, { id, hosts })
  const since = performance.now()
  let isSaid = false
  for (;;) {
    const answer = readHostAnswer(dir, id)
    if (answer) return answer
    const waited = performance.now() - since
    if (waited >= waitMs) break
    if (!isSaid && waited >= HOST_CLAIMS.quietMs) {
      isSaid = true
      attempt.output.say(`${named(hosts)}: waiting for the control plane to confirm.`)
    }
    await attempt.interruption.wait(Math.min(HOST_CLAIMS.pollMs, waitMs - waited))
  }
  const minutes = Math.round(waitMs / 60_000)
  throw new StepFailure(
    FailureCode.CONTROL_PLANE_UNREACHABLE,
    `${named(hosts)} could not be confirmed for ${minutes} min.`,
  )
}

/** Lists every refused hostname in one message; the first one determines the code. */
function judge(spec: TaskSpec, wanted: readonly string[], answer: HostAnswer): void {
  const claims = new Map(answer.claims.map((claim) => [claim.host, claim]))
  const refused = wanted.flatMap((host) => {
    const claim = claims.get(host)
    if (claim?.verdict === 'granted') return []
    const message = claim?.message || `${host} was not granted by the control plane.`
    return [{ host, verdict: claim?.verdict ?? 'not_allowed', message }]
  })
  const [first] = refused
  if (!first) return
  const code =
    first.verdict === 'taken' ? FailureCode.DOMAIN_IN_USE : FailureCode.DOMAIN_NOT_ALLOWED
  const sentences = refused.map(({ message }) => message)
  const isShared = refused.some((r) => r.verdict === 'taken' && isSameForAll(spec, r.host))
  if (isShared) sentences.push(SHARED_HINT)
  throw new StepFailure(code, sentences.join(' '))
}

const SHARED_HINT = `Every pull request wants this name: put \${SERVICE_ENV_IDENTIFIER} into the domain.`

const isSameForAll = ({ environment }: TaskSpec, host: string): boolean =>
  environment?.type === EnvironmentType.PULL_REQUEST && !host.includes(environment.identifier)
