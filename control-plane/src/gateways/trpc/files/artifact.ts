// Lists the files that actions left, and creates a link to one. It asks the server first, so that a refusal appears as
// a message on the page and never as a file.
import { Id } from '@berth/shared/api'
import { z } from 'zod'
import { listTaskArtifacts } from '../../../app/files/artifacts.ts'
import { giveArtifactTicket } from '../../../app/files/downloads.ts'
import { serializeArtifact } from '../../serializers/artifact.ts'
import { serializeTicket } from '../../serializers/dashboard.ts'
import { browserCall, call, router } from '../base.ts'

export const artifactRouter = router({
  list: call
    .input(z.strictObject({ task_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const rows = await listTaskArtifacts(ctx, caller, input.task_id)
      return { artifacts: rows.map((row) => serializeArtifact(ctx, row)) }
    }),
  ticket: browserCall
    .input(z.strictObject({ artifact_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input, signal = new AbortController().signal }) =>
      serializeTicket(await giveArtifactTicket(ctx, caller, input.artifact_id, signal)),
    ),
})
