// What happens in an organization: projects and servers that come, change and go, deployments everywhere.

import { Id } from '@berth/shared/rest'
import { z } from 'zod'
import { router, watch } from './base.ts'
import { counted, Resume, watchEvents } from './messages.ts'

export const organizationRouter = router({
  events: watch
    .input(z.strictObject({ organization_id: Id, ...Resume }))
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const organizationId = input.organization_id
      await ctx.admission.require(organizationId, false)
      const events = watchEvents(ctx, { organizationId }, input.lastEventId, signal)
      return counted(ctx.socket, events)
    }),
})
