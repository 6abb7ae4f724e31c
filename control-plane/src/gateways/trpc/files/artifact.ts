// Files that actions left: which there are, and a link to one. The server is asked for it before the link is given, so
// that a refusal is a sentence on the page and never a file.
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
