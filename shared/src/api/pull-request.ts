// Pull requests of a project, including those without an environment.
import { z } from 'zod'
import { PULL_REQUEST_STATES, WAITING_REASONS } from '../webhook.ts'
import { Commit, Id, Person, Time } from './fields.ts'
import { Task } from './task.ts'

export const PullRequest = z.object({
  project_id: Id,
  number: z.int(),
  title: z.string(),
  url: z.string(),
  author: z.string(),
  state: z.enum(PULL_REQUEST_STATES),
  draft: z.boolean(),
  head_branch: z.string(),
  base_branch: z.string(),
  from_fork: z.boolean(),
  /** Null if the forge reported only a short hash; a deployment finds the full one. */
  head_sha: z.string().nullable(),
  approved_sha: z.string().nullable(),
  approved_by: Person.nullable(),
  environment_id: Id.nullable(),
  waiting_for: z.enum(WAITING_REASONS).nullable(),
  waiting_since: Time.nullable(),
  /** Position on the waiting list, from 1. */
  position: z.int().nullable(),
  updated_at: Time,
})
export type PullRequest = z.infer<typeof PullRequest>

export const PullRequestParams = z.object({
  id: z
    .string()
    .regex(/^[1-9][0-9]{0,9}$/, 'must be a positive integer')
    .transform(Number)
    .pipe(Id),
  number: z
    .string()
    .regex(/^[1-9][0-9]{0,9}$/, 'must be a positive integer')
    .transform(Number)
    .pipe(z.int().max(2_147_483_647)),
})

export const PullRequestApprove = z.strictObject({ head_sha: Commit })

export const PullRequestApproved = PullRequest.extend({ task: Task.nullable() })
