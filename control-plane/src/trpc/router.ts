// The dashboard's API: the same app functions, rules and fields as REST, and live updates. One file a noun; the
// dashboard imports the type and nothing else.
import { router } from './base.ts'
import { environmentRouter } from './environment.ts'
import { me } from './me.ts'
import { organizationRouter } from './organization.ts'
import { projectRouter } from './project.ts'
import { taskRouter } from './task.ts'

export const appRouter = router({
  me,
  organization: organizationRouter,
  project: projectRouter,
  environment: environmentRouter,
  task: taskRouter,
})

export type AppRouter = typeof appRouter
