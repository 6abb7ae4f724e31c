// Facts of an environment that serves commit A when commit B arrives, and decisions as one line of text.
import type { Decision, Intent } from './intent.ts'
import type { RedeploymentFacts } from './redeployment.ts'

export const A = 'a'.repeat(40)
export const B = 'b'.repeat(40)
export const serving: RedeploymentFacts = {
  environmentId: 5,
  identifier: 'pr-42',
  sha: B,
  removing: false,
  ended: null,
  protected: false,
  autoDeploy: true,
  fromFork: false,
  shaApproved: false,
  targetSha: A,
  commitSha: A,
  newest: { status: 'succeeded', canceledByPerson: false, failureCode: null },
  skipMarkerOn: false,
  message: null,
  skippedBefore: null,
  watchesPaths: false,
  watchedChanged: true,
  serverName: 'fra-1',
  serverJoined: true,
  serverOnline: true,
  leftBehind: false,
  queuedTaskId: null,
  runningTaskId: null,
  origin: 'event',
}

function name(intent: Intent): string {
  if (intent.kind === 'wait') return `wait for ${intent.for ?? 'nothing'}`
  if (intent.kind === 'mark_branch') return `mark_branch ${intent.missing ? 'missing' : 'found'}`
  return intent.kind
}

/** "outcome rule: intents in order". */
export const tell = ({ outcome, rule, intents }: Decision): string =>
  `${outcome} ${rule}: ${intents.map(name).join(', ') || 'nothing'}`
