// E-mail and password. Paste and password managers work; the error does not say which of the two is wrong.
import { api } from '../../api.ts'
import { Text } from './field.tsx'
import { Form, text } from './form.tsx'

export function SignInForm({ email, onDone }: { email?: string; onDone(): void }) {
  return (
    <Form
      label="Sign in"
      submit="Sign in"
      send={async (data) => {
        await api.session.signIn.mutate({
          email: text(data, 'email'),
          password: text(data, 'password'),
        })
        onDone()
      }}
    >
      <Text
        label="E-mail"
        name="email"
        type="email"
        autoComplete="username"
        defaultValue={email}
        required
      />
      <Text
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
      />
    </Form>
  )
}
