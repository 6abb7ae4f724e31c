// What platform administrators see and do: accounts, names and counts across organizations, the keys of the
// installation. The app functions check the caller; the limit of a project's environments is in project.setLimit.
import {
  AdminUserUpdate,
  Id,
  SSH_AUTHORITY_KINDS,
  SshAuthorityAdoption,
  SshAuthorityRetirement,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  changeUser,
  listEveryOrganization,
  listEveryProject,
  listEveryUser,
} from '../../../app/installation/users.ts'
import { resetFactors } from '../../../app/people/factors/factors.ts'
import {
  adoptAuthority,
  announceAuthority,
  listSshAuthorities,
  retireAuthority,
} from '../../../app/ssh/rotation.ts'
import {
  serializeAdminOrganization,
  serializeAdminProject,
  serializeAdminUser,
} from '../../serializers/people.ts'
import { serializeSshAuthority } from '../../serializers/ssh.ts'
import { call, router } from '../base.ts'
import { Page, pageById } from '../paging.ts'

const Paged = z.strictObject(Page).optional()
const Authority = z.strictObject({ kind: z.enum(SSH_AUTHORITY_KINDS) })

export const adminRouter = router({
  users: call.input(Paged).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      ({ limit, from }) => listEveryUser(ctx, caller, { limit, after: from }),
      (view) => view.user.id,
      serializeAdminUser,
    )
    return { users: items, next }
  }),
  updateUser: call
    .input(z.strictObject({ user_id: Id, ...AdminUserUpdate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { user_id: id, ...asked } = input
      return serializeAdminUser(await changeUser(ctx, caller, id, asked))
    }),
  /** For a person who lost their factors. */
  resetSecondFactor: call
    .input(z.strictObject({ user_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await resetFactors(ctx, caller, input.user_id)
      return null
    }),
  organizations: call.input(Paged).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      ({ limit, from }) => listEveryOrganization(ctx, caller, { limit, after: from }),
      (view) => view.organization.id,
      serializeAdminOrganization,
    )
    return { organizations: items, next }
  }),
  projects: call.input(Paged).query(async ({ ctx: { ctx, caller }, input }) => {
    const { items, next } = await pageById(
      input,
      ({ limit, from }) => listEveryProject(ctx, caller, { limit, after: from }),
      (view) => view.project.id,
      serializeAdminProject,
    )
    return { projects: items, next }
  }),
  sshAuthorities: call.query(async ({ ctx: { ctx, caller } }) => {
    const views = await listSshAuthorities(ctx, caller)
    return { authorities: views.map(serializeSshAuthority) }
  }),
  announceSshAuthority: call
    .input(Authority)
    .mutation(async ({ ctx: { ctx, caller }, input }) =>
      serializeSshAuthority(await announceAuthority(ctx, caller, input.kind)),
    ),
  adoptSshAuthority: call
    .input(Authority.extend({ haste: SshAuthorityAdoption }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { without, force } = input.haste ?? {}
      const haste = { ...(without ? { without } : {}), ...(force ? { force } : {}) }
      return serializeSshAuthority(await adoptAuthority(ctx, caller, input.kind, haste))
    }),
  retireSshAuthority: call
    .input(Authority.extend({ haste: SshAuthorityRetirement }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      await retireAuthority(ctx, caller, input.kind, { force: input.haste?.force ?? false })
      return null
    }),
})
