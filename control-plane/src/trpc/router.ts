// The dashboard's API: the same app functions, rules and fields as REST, and live updates. One file a noun; the
// dashboard imports the type and nothing else.
import { adminRouter } from './admin.ts'
import { artifactRouter } from './artifact.ts'
import { auditRouter } from './audit.ts'
import { router } from './base.ts'
import { deliveryRouter, pullRequestRouter } from './delivery.ts'
import { environmentRouter } from './environment.ts'
import { me } from './me.ts'
import { invitationRouter, memberRouter } from './member.ts'
import { organizationRouter } from './organization.ts'
import { projectRouter } from './project.ts'
import { serverRouter } from './server.ts'
import { sessionRouter } from './session.ts'
import { taskRouter } from './task.ts'
import { deviceRouter, tokenRouter } from './token.ts'
import { actionRouter, variableRouter } from './variable.ts'

export const appRouter = router({
  me,
  session: sessionRouter,
  organization: organizationRouter,
  member: memberRouter,
  invitation: invitationRouter,
  token: tokenRouter,
  device: deviceRouter,
  audit: auditRouter,
  admin: adminRouter,
  server: serverRouter,
  project: projectRouter,
  delivery: deliveryRouter,
  pullRequest: pullRequestRouter,
  environment: environmentRouter,
  variable: variableRouter,
  action: actionRouter,
  task: taskRouter,
  artifact: artifactRouter,
})

export type AppRouter = typeof appRouter
