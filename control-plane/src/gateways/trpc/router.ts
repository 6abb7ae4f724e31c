// The dashboard's API: the same app functions, rules and fields as REST, plus live updates. One file per noun; the
// dashboard imports only the type.

import { router } from './base.ts'
import { runtimeLogRouter } from './deployments/runtime-logs.ts'
import { taskRouter } from './deployments/task.ts'
import { versionRouter } from './deployments/version.ts'
import { backupRouter } from './environments/backup.ts'
import { environmentRouter } from './environments/environment.ts'
import { actionRouter, variableRouter } from './environments/variable.ts'
import { artifactRouter } from './files/artifact.ts'
import { forgeRouter } from './forges/connection.ts'
import { deliveryRouter, pullRequestRouter } from './forges/delivery.ts'
import { adminRouter } from './installation/admin.ts'
import { auditRouter } from './installation/audit.ts'
import { channelRouter } from './notices/channel.ts'
import { factorRouter } from './people/factor.ts'
import { sessionRouter } from './people/login.ts'
import { me } from './people/me.ts'
import { invitationRouter, memberRouter } from './people/member.ts'
import { organizationRouter } from './people/organization.ts'
import { secretRouter } from './people/secret.ts'
import { deviceRouter, tokenRouter } from './people/token.ts'
import { projectRouter } from './projects/project.ts'
import { registryRouter } from './projects/registry.ts'
import { serverRouter } from './servers/server.ts'

export const appRouter = router({
  me,
  session: sessionRouter,
  factor: factorRouter,
  organization: organizationRouter,
  member: memberRouter,
  invitation: invitationRouter,
  token: tokenRouter,
  device: deviceRouter,
  secret: secretRouter,
  audit: auditRouter,
  admin: adminRouter,
  server: serverRouter,
  project: projectRouter,
  registry: registryRouter,
  forge: forgeRouter,
  channel: channelRouter,
  delivery: deliveryRouter,
  pullRequest: pullRequestRouter,
  backup: backupRouter,
  environment: environmentRouter,
  runtimeLog: runtimeLogRouter,
  variable: variableRouter,
  action: actionRouter,
  task: taskRouter,
  version: versionRouter,
  artifact: artifactRouter,
})

export type AppRouter = typeof appRouter
