// Variables of environments and projects, and actions. Values of variables come in and never go out; inputs are never
// logged.
import { REST } from '@berth/shared'
import {
  ActionStart,
  Id,
  ProjectVariablesPatch,
  VariableHistoryQuery,
  VariablesPatch,
} from '@berth/shared/api'
import { z } from 'zod'
import { listActions, startAction } from '../../../app/deployments/actions.ts'
import { listScheduledRuns } from '../../../app/deployments/schedules.ts'
import {
  listEnvironmentHistory,
  listProjectHistory,
  type VariableHistory,
} from '../../../app/environments/variable-history.ts'
import { changeVariables, listEnvironmentVariables } from '../../../app/environments/variables.ts'
import {
  changeProjectVariables,
  listProjectVariableViews,
} from '../../../app/projects/variables.ts'
import { serializeAction, serializeRun } from '../../serializers/action.ts'
import { serializeWholeTask } from '../../serializers/dashboard.ts'
import { serializeVariable } from '../../serializers/environment.ts'
import { serializeProjectVariable, serializeVariableChange } from '../../serializers/variable.ts'
import { call, router } from '../base.ts'
import { Page } from '../paging.ts'

const One = z.strictObject({ environment_id: Id })
const InProject = z.strictObject({ project_id: Id })
const pageOf = ({
  cursor,
  limit,
}: {
  cursor?: number | undefined
  limit?: number | undefined
}) => ({
  beforeId: cursor,
  limit: limit ?? REST.perPage,
})
const present = ({ changes, next }: VariableHistory) => ({
  changes: changes.map(serializeVariableChange),
  next: next ?? null,
})
const History = { key: VariableHistoryQuery.shape.key, ...Page }

export const variableRouter = router({
  list: call.input(One).query(async ({ ctx: { ctx, caller }, input }) => {
    const views = await listEnvironmentVariables(ctx, caller, input.environment_id)
    return { variables: views.map(serializeVariable) }
  }),
  change: call
    .meta({ policy: 'variables' })
    .input(z.strictObject({ environment_id: Id, ...VariablesPatch.shape }))
    .mutation(({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      return changeVariables(ctx, caller, id, asked)
    }),
  history: call.input(One.extend(History)).query(async ({ ctx: { ctx, caller }, input }) => {
    const { environment_id: id, key } = input
    const page = pageOf(input)
    return present(await listEnvironmentHistory(ctx, caller, id, { key, ...page }))
  }),
  levels: call.input(InProject).query(async ({ ctx: { ctx, caller }, input }) => {
    const views = await listProjectVariableViews(ctx, caller, input.project_id)
    return { variables: views.map(serializeProjectVariable) }
  }),
  changeLevel: call
    .meta({ policy: 'variables' })
    .input(z.strictObject({ project_id: Id, ...ProjectVariablesPatch.shape }))
    .mutation(({ ctx: { ctx, caller }, input }) => {
      const { project_id: id, ...asked } = input
      return changeProjectVariables(ctx, caller, id, asked)
    }),
  projectHistory: call
    .input(InProject.extend(History))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const { project_id: id, key } = input
      const page = pageOf(input)
      return present(await listProjectHistory(ctx, caller, id, undefined, { key, ...page }))
    }),
})

export const actionRouter = router({
  list: call.input(One).query(async ({ ctx: { ctx, caller }, input }) => {
    const listed = await listActions(ctx, caller, input.environment_id)
    const actions = listed.actions.map((action) =>
      serializeAction(action, listed.syncedAt, listed.schedules.get(action.name)),
    )
    return { actions }
  }),
  runs: call
    .input(z.strictObject({ environment_id: Id, name: z.string().max(64) }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const runs = await listScheduledRuns(ctx, caller, input.environment_id, input.name)
      return { runs: runs.map(serializeRun) }
    }),
  run: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ environment_id: Id, name: z.string().max(64), ...ActionStart.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, name, ...asked } = input
      const view = await startAction(ctx, caller, id, name, asked, 'dashboard')
      return serializeWholeTask(ctx, view)
    }),
})
