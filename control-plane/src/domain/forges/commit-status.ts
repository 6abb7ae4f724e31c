// The texts for a forge at each moment of a deployment. PURE. Texts are short, because forges cut or refuse more than
// 140 characters. A deployment that a rule skipped is not reported.
import { COMMIT_STATUSES } from '../../limits/forges.ts'

type ReportedState = 'pending' | 'running' | 'success' | 'failure' | 'stopped'

export interface ReportedStatus {
  state: ReportedState
  description: string
  /** The link's target; null means the task's own page. */
  url: string | null
}

export type Moment =
  | { kind: 'queued'; server: string }
  | { kind: 'running' }
  | { kind: 'succeeded'; address: string | null }
  | { kind: 'failed'; step: string | null; message: string }
  | { kind: 'canceled'; reason: 'user' | 'superseded' | 'environment_removed' | null }
  | { kind: 'approval' }
  | { kind: 'limit'; used: number; limit: number; position: number }

const cut = (text: string): string => {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  const most = COMMIT_STATUSES.descriptionCharacters
  return plain.length <= most ? plain : `${plain.slice(0, most - 1)}…`
}

export function describeMoment(moment: Moment): ReportedStatus {
  const reported = (
    state: ReportedState,
    text: string,
    url: string | null = null,
  ): ReportedStatus => ({
    state,
    description: cut(text),
    url,
  })
  switch (moment.kind) {
    case 'queued':
      return reported('pending', `Waiting for ${moment.server}`)
    case 'running':
      return reported('running', 'Deploying')
    case 'succeeded':
      return moment.address
        ? reported('success', `Deployed: ${moment.address}`, moment.address)
        : reported('success', 'Deployed')
    case 'failed':
      return reported(
        'failure',
        `${moment.step ? `Failed: ${moment.step}` : 'Failed'}: ${moment.message}`,
      )
    case 'canceled':
      if (moment.reason === 'superseded') return reported('stopped', 'Replaced by a newer commit')
      if (moment.reason === 'environment_removed') return reported('stopped', 'Environment removed')
      return reported('stopped', 'Canceled')
    case 'approval':
      return reported('pending', 'Waiting for approval by a member')
    case 'limit':
      return reported(
        'pending',
        `${moment.used} of ${moment.limit} environments in use, place ${moment.position} in line`,
      )
  }
}

/** Marks the one comment of an environment; Berth edits the comment that has this marker. */
export const commentMarker = (environmentId: number): string => `berth:env:${environmentId}`

interface CommentFacts {
  project: string
  identifier: string
  sha: string | null
  address: string | null
  taskUrl: string
}

/** The text below a pull request. Names are shown as code, so that they cannot contain markup. */
export function describeComment(
  state: 'succeeded' | 'failed' | 'removed',
  facts: CommentFacts,
): string {
  const code = (text: string): string => `\`${text.replaceAll(/[`\r\n]/g, '')}\``
  const name = `**${code(`${facts.project}/${facts.identifier}`)}**`
  const commit = facts.sha ? ` at ${code(facts.sha.slice(0, 7))}` : ''
  switch (state) {
    case 'succeeded':
      return facts.address
        ? `${name} is deployed${commit}: ${facts.address}\n\n[Deployment](${facts.taskUrl})`
        : `${name} is deployed${commit}. [Deployment](${facts.taskUrl})`
    case 'failed':
      return `${name} could not be deployed${commit}. [What went wrong](${facts.taskUrl})`
    case 'removed':
      return `${name}: environment removed.`
  }
}
