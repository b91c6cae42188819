"""launchers.py: what programs run in turn, and that allow rules do not cover it and deny rules see through it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolcast import Permissions, Rule
from toolcast.agents.permissions.shell.launchers import all_launches, launches, program_key
from toolcast.agents.permissions.shell.lexer import UnparsedCommand, Word
from toolcast.agents.permissions.shell.parser import commands
from toolcast.tools.callable_tool import CallableTool


def lines(text: str) -> list[str]:
    """Return the lines of a text: commands, so that no quotes stand around them."""
    return text.strip("\n").split("\n")


def bash(command: str) -> str:
    """Run a command."""
    raise AssertionError(command)


TOOL = CallableTool.from_function(bash)


def asked(patterns: str, command: str) -> bool:
    """Return whether rules that allow these patterns, split at `|`, leave the command to the approver."""
    rules = [Rule("bash", "allow", {"command": pattern}) for pattern in patterns.split("|")]
    permissions = Permissions("default", rules, approve=lambda request: True)
    return permissions.decide(TOOL, {"command": command}).verdict != "allow"


def denied(pattern: str, command: str) -> bool:
    """Return whether a rule that denies the pattern hits the command in the mode that allows everything else."""
    permissions = Permissions("bypass", [Rule("bash", "deny", {"command": pattern})])
    return permissions.decide(TOOL, {"command": command}).verdict == "deny"


GIT = lines(r"""
config -z core.pager 'touch x'
config --show-origin core.pager 'touch x'
config --name-only core.pager x
svn clone x
-c core.fsmonitor='touch x' status
-c core.fsmonitor=./evil status
-c core.pager='touch x' log
-c core.sshCommand='touch x' fetch
-c alias.s='!touch x' s
-c alias.s=push s
-c core.editor=x commit
-c include.path=evil status
-c protocol.ext.allow=always fetch 'ext::sh -c x'
-c core.hooksPath=. commit
-c credential.helper='!touch x' fetch
-c diff.external='touch x' diff
-c user.name=x -c core.pager=y log
-c filter.x.clean='touch x' add .
-c gpg.program=./x commit -S
-c sequence.editor=x rebase -i
-c x
--config-env=core.pager=X log
--config-env core.pager=X log
--exec-path=. status
-C evil status
--git-dir=evil status
--git-dir evil status
--work-tree=x status
--unknown status
--namespace x a
fetch --upload-pack='touch x' .
fetch --upload-pa 'touch x' .
clone -u 'touch x' . y
pull --exec=x .
clone --upload-pack x . y
clone -c core.pager=x . y
clone --config core.fsmonitor=x . y
clone ext::x y
clone --template=evil . y
init --template=evil
push --receive-pack='touch x' .
push --exec=x .
push a::b
ls-remote --upload-pack=x .
ls-remote ext::x
archive --remote=. --exec='touch x' HEAD
fetch $X
grep -O'touch x' a
grep -Otouch a
grep --open-files-in-pager=x a
grep --open=x a
grep -nO a
rebase -x 'touch x' HEAD~1
rebase --exec 'touch x' HEAD~1
bisect run touch x
bisect run sh -c 'touch x'
submodule foreach 'touch x'
submodule foreach --recursive touch x
submodule foreach $X
bisect $X
filter-branch --tree-filter 'touch x'
difftool -x 'touch x'
difftool --extcmd=x
difftool -t x
shell -c x
config core.pager 'touch x'
config --global alias.s '!touch x'
config set core.editor x
config -e
config $X
config --unset x
config --add core.pager x
config --file=x a b
instaweb --httpd=x
web--browse -c x
for-each-repo --config=x y
hook run x
remote add x ext::y
send-email --smtp-server=/x a
remote-ext a b
$X status
$(git config x) status
*
daemon --access-hook=x
submodule add ext::x
mergetool --tool=x
""")

OPTIONS = lines(r"""
tar cIf x a b
tar xFf x a
ssh h -o ProxyCommand=x
sed -i '' '1e x' a
python -i x.py
python -W ignore
python -X dev
python //dev/stdin
python ../../../dev/stdin
bash //dev/stdin
source ../../dev/stdin
tclsh --version
psql db
mysql db
sqlite3 db x
crontab x
at now
lftp -c '!touch x'
fzf --preview 'touch x'
pandoc -F ./x a
pandoc --lua-filter=x a
rpm --eval '%(touch x)'
gpg --photo-viewer x -k
xelatex -shell-escape a
konsole -e touch
gcc -Wl,-plugin,x a.c
go build -ldflags=-extld=x
go env -w CC=x
cargo -C x build
npm -C x run a
npm config set script-shell x
jj --config x=y log
gh extension exec x
guix shell -- touch
find . -exec touch x ;
find . -exec touch x {} +
find . -execdir x ';'
find . -ok x ';'
find . -okdir x \;
find . -delete
find . -fprint x
find . -fprintf x y
find . -fls x
find . $X
find . -exec
find . -exec find {} ; -exec touch x ;
fd -x touch
fd -Hx touch
fd . --exec touch
fd --exec-b touch
fd $X
tar cf a b --checkpoint=1 --checkpoint-action=exec='touch x'
tar --checkpoint-act=exec=x -cf a b
tar -I x -cf a b
tar xf a --to-command='touch x'
tar --to-c x -xf a
tar -cIx a
tar --use-compress-program=x -xf a
tar cf a *
tar -F x -cf a b
tar --info-script=x -cf a b
tar --rsh-command=x -cf a:b c
tar -f -- -I x
tar cf a $X
ssh -o ProxyCommand='touch x' h
ssh -oProxyCommand=x h
ssh -o 'ProxyCommand x' h
ssh -oLocalCommand=x h
ssh h
ssh -F evil h
ssh h touch x
ssh -p 22 h touch x
ssh -I evil.so h
ssh -vo ProxyCommand=x h
ssh $X
scp -S ./x a h:b
scp -o ProxyCommand=x a h:b
scp -oProxyCommand=x a b
scp -F x a b
sftp -S x h
sftp -b x h
rsync -e 'touch x' a h:b
rsync -ave x a b
rsync --rsh=x a b
rsync --rsync-path=x a b
rsync --rs x a b
make --eval='$(shell touch x)'
make --ev x
make -f evil
make -f-
make --file=x
make SHELL=./x
make CC='touch x'
make -j4 CC=x
make $X
make -Ix
awk 'BEGIN{system("touch x")}'
awk 'BEGIN{"touch x"|getline}'
awk '{print | "touch x"}'
awk '{print > "x"}'
awk -f evil
awk -F, '{system($1)}' a
awk -v a=b 'BEGIN{system(a)}'
awk -va=b 'BEGIN{system(a)}'
awk -e 'BEGIN{system(1)}'
awk '@load "x"'
awk "$X"
awk -- 'BEGIN{system(1)}'
sed 1e a
sed '1e touch x' a
sed s/a/b/e a
sed -n '$!N;s/a/touch x/e' a
sed -e p -e '1e x' a
sed -ne '1e x' a
sed 'w x' a
sed s/a/b/w\ x a
sed -f evil a
sed --file=x a
sed --expression='1e x' a
sed $X a
sed 's/[/]/e x/e' a
sed -s '1e x' a
sed -i '1e x' a
sed -E '/a/e x' a
sed 'r x' a
sed "$X" a
sed -n -e 's|a|b|e' a
vim -c '!touch x' a
vim '+!touch x' a
vim +x a
vim --cmd x a
vim -S x
vim -es a
vi -c x
nvim -c x
ex a
vim.basic -c x
less '+!touch x' a
less +x a
less -k x a
man -P 'touch x' ls
man --pager=x ls
man -Htouch ls
man -C x ls
man --html=x ls
more +x a
emacs --eval x
emacs -batch -l x
nano -s x a
ed a
ed
python -c 'x'
python -Bc x
python -m http.server
python3 -c x
python3.12 -c x
python -
python
python /dev/stdin
python $X
python <<< x
perl -e x
perl -ne x
perl -Mx a
perl -x a
perl
ruby -e x
ruby -rx a
ruby -S x
node -e x
node -p x
node --eval x
node --ev x
node -r ./x a
node --import=./x a
node
php -r x
php -d a=b c
lua -e x
lua5.4 -e x
R -e x
Rscript -e x
julia -e x
tclsh
expect -c x
osascript -e x
gnuplot -e x
bun -e x
bun x y
deno eval x
elixir -e x
erl -eval x
exiftool -if x a
dc -e '!touch x'
m4 a
socat - EXEC:x
bash -c 'touch x'
sh -c 'touch x'
bash
bash -s x
bash -i
bash /dev/stdin
bash --rcfile x y
bash $X
bash +x
bash --init-file x
zsh -c 'touch x'
fish -C 'touch x' a
fish --init-command=x a
su -c 'touch x'
sg a 'touch x'
pwsh -Command x
sg a -c 'touch x'
script -qc 'touch x' /dev/null
script x
source /dev/stdin
. /dev/stdin
source $X
gdb -ex x
gdb a
lldb -o x a
sqlite3 a '.shell touch x'
sqlite3 a
psql -c '\! x'
psql
mysql -e '\! x'
zip -T -TT 'touch x' a b
zip a b --unzip-command=x
sort --compress-program=x a
split --filter='touch x' a
rg --pre x a
rg --pre=x a
ag --pager=x a
bat --pager x a
wget --use-askpass=x a
wget -e use_askpass=x a
nc -e x h 1
ncat --exec x h 1
ncat -c x h 1
tcpdump -z x
cpio --rsh-command=x
install --strip-program=x -s a b
go test -exec x
go vet -vettool=x
go build -toolexec x
go build --toolexec=x
gcc -wrapper x a.c
gcc -fplugin=./x.so a.c
gcc-12 -B. a.c
clang -fplugin=x a.c
java -XX:OnError=x a
java -javaagent:x a
cargo --config x build
rustc -C linker=x a
gradle -I x
npm --script-shell=x run a
npm run a --node-options=x
apt-get -o a=b install
hg --config alias.x='!y' x
nmap --script=x h
ansible all -m shell -a x
svn --diff-cmd=x diff
dpkg --pre-invoke=x
pip --python x install a
ssh-keygen -D x
ssh-add -s x
patch -e a
cmake -P x
cmake -E env touch x
openssl -engine x
xterm -e touch
git-shell -c x
enable -f x y
hash -p x git
fc -e x
bind -x '"a":x'
zmodload x
""")

RUNNING = lines(r"""
npm exec -c 'touch x'
npx -c 'touch x'
nix-shell --run 'touch x'
flock a -c 'touch x'
entr -s 'touch x'
sudo -s
sudo -i
hyperfine 'touch x'
hyperfine ls 'touch x'
hyperfine -p 'touch x' ls
parallel 'touch x' ::: a
nodemon --exec 'touch x'
docker run a
docker --context a run b
docker $X
xargs $X
sudo $X
ssh-agent
vagrant ssh -c 'touch x'
""")

BUILTINS = lines(r"""
test -v 'a[$(touch x)]'
[ -v 'a[$(touch x)]' ]
test -R 'a[`touch x`]'
test 'a[$(touch x)]' -eq 1
test $(echo -v) 'a[`x`]'
let 'a[$(touch x)]=1'
let 'x=a[$(touch x)]'
declare 'a[$(touch x)]=1'
declare -i 'x=a[$(touch x)]'
typeset 'a[`touch x`]'
export 'a[$(touch x)]=1'
readonly 'a[$(touch x)]=1'
local 'a[$(touch x)]=1'
read 'a[$(touch x)]'
read -r 'a[`touch x`]'
unset 'a[$(touch x)]'
printf -v 'a[$(touch x)]' b
printf -va[1] b; printf -v 'a[`x`]' b
mapfile 'a[$(touch x)]'
read $X
mapfile -C 'touch x' -c 1 a
readarray -C 'touch x' a
compgen -C 'touch x'
compgen -W '$(touch x)'
complete -C 'touch x' a
getopts a 'a[$(touch x)]'
wait -n -p 'a[$(touch x)]'
export PATH=.
export PAGER='touch x'
declare -x BASH_ENV=x
unset $X
read PATH
printf -v PATH x
read PS4
read BASH_ENV
export PROMPT_COMMAND='touch x'
export PS4='$(touch x)'
readonly a=b
alias ls='touch x'
emulate sh -c 'touch x'
return 'a[$(touch x)]'
exit 'a[$(touch x)]'
shift 'a[$(touch x)]'
test $X
""")

WRAPPERS = " | ".join(
    lines("""
sudo | sudo -u a | doas | env | env A=1 | env -i | env -u A | nohup | setsid | setsid -w | nice | nice -n 5
ionice -c 2 | time | timeout 5 | timeout -k 1 5 | stdbuf -oL | unshare -r | chroot . | strace | ltrace | flock a
xargs | xargs -n1 | xargs -I {} | parallel | taskset 1 | taskset -c 1 | setarch | setarch x86_64 | linux32
prlimit | chrt 1 | numactl | systemd-run | firejail | bwrap | fakeroot | torsocks | proxychains | xvfb-run
valgrind | perf stat | rlwrap | tmux new | screen -dm | busybox | npx | npx -y | bunx | pnpx | uvx | ssh-agent
ssh-agent -t 5 | logsave a | runcon a | runcon -t a | hyperfine | hyperfine -N | watch | watch -n 1 | command
command -p | builtin | exec | exec -a b | jobs -x | uv run | uv run --with a | uv tool run | uv --offline run
poetry run | pdm run | hatch run | pipenv run | pipx run | conda run | conda run -n a | npm exec | npm exec --
npm x | pnpm dlx | pnpm exec | yarn dlx | yarn exec | direnv exec . | docker run a | docker run -v /:/h a
docker exec a | docker compose exec a | docker compose run a | podman run a | kubectl exec a --
kubectl exec -it a -- | kubectl run a -- | lxc exec a -- | nix run a -- | nix shell -c | mise exec --
mise x -- | bundle exec | rbenv exec | pyenv exec | opam exec -- | rustup run stable | ip netns exec a
nsenter -t 1 | /lib64/ld-linux-x86-64.so.2 | /lib/ld-musl-x86_64.so.1 | ld.so | eval | trap | su-exec a | gosu a
setuidgid a | noglob | nocorrect | repeat 3 | chronic | dotenv | entr | nodemon | watchexec | concurrently
ccache | dumb-init | aws-vault exec a -- | env $X | timeout $X | nice nice nice | env nice timeout 5
sudo env A=1 nice | uv run uv run
""")
).split(" | ")


def documented() -> list[tuple[str, str, bool]]:
    """Return the rules, the commands and whether they are asked about, of the table in docs/how-to/approvals.md."""
    text = (Path(__file__).parents[4] / "docs" / "how-to" / "approvals.md").read_text("utf-8")
    table = text.partition("| allow rules |")[2].partition("\n\n")[0]
    found: list[tuple[str, str, bool]] = []
    for row in table.splitlines()[2:]:
        rules, runs, asks = (re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|"))
        found += [("|".join(rules), command, False) for command in runs]
        found += [("|".join(rules), command, True) for command in asks]
    return found


@pytest.mark.parametrize(("patterns", "command", "expected"), documented())
def test_the_examples_of_the_documentation_match(patterns: str, command: str, expected: bool) -> None:
    assert asked(patterns, command) is expected


def test_the_documentation_has_a_table() -> None:
    assert len(documented()) > 20


@pytest.mark.parametrize("command", GIT)
def test_allow_git_does_not_cover_what_git_is_reported_to_run(command: str) -> None:
    assert asked("git", f"git {command}")
    assert asked("git *|ls *", f"git {command}")


def program_of(command: str) -> str:
    return command.split()[0]


@pytest.mark.parametrize("command", [*OPTIONS, *RUNNING, *BUILTINS, *(f"{wrapper} touch x" for wrapper in WRAPPERS)])
def test_allowing_a_program_does_not_cover_the_programs_that_it_runs(command: str) -> None:
    assert asked(program_of(command), command)
    assert asked(f"{program_of(command)} *|ls", command)
    assert asked(f"{program_of(command)[:-1]}?", command)


@pytest.mark.parametrize(
    ("patterns", "command"),
    [
        ("xargs *|git", "xargs git"),  # the input may be `-c core.pager=x log`
        ("xargs git", "xargs git"),
        ("xargs|sh|echo", "echo touch | xargs sh -c"),
        ("find|sh", "find . -exec sh -c {} ;"),
        ("find|sh", "find . -exec sh -c 'ls {}' ;"),
        ("find|git", "find . -exec git {} ;"),
        ("uv run *", "uv run touch x"),
        ("uv run -q", "uv run -q touch x"),
        ("sudo -u a", "sudo -u a touch x"),
        ("timeout *", "timeout 5 touch x"),
        ("timeout 5", "timeout 5 touch x"),
        ("docker run a", "docker run a touch x"),
        ("git -c *", "git -c core.pager=x log"),
        ("git -c color.ui=never *", "git -c color.ui=never -c core.pager=x log"),
        ("sudo|git", "sudo git -c core.pager=x log"),
        ("uv run git", "uv run git -c core.pager=x log"),
        ("bash|ls", "bash -c 'ls; touch x'"),
        ("chroot|git", "chroot evil git"),
        ("setarch|git", "setarch touch git"),
        ("hyperfine git", "hyperfine git touch"),
        ("timeout|pytest", "timeout 5 timeout 5 touch"),
        ("uv|sh", "uv run sh -c 'touch x'"),
    ],
)
def test_what_a_rule_does_not_spell_out_is_asked_about(patterns: str, command: str) -> None:
    assert asked(patterns, command)


HARMLESS = lines(r"""
awk => awk -F,
python => python -u -B x.py
scp => scp -r a h:b
git => git status
git => git push origin main
git => git -p log
git => git --no-pager log -p
git => git -c color.ui=never diff
git => git -c user.name=x commit -m y
git => git log $X
git => git commit -m 'a -c b'
git => git add *.py
git => git fetch origin
git => git clone https://h/x y
git => git config --get user.name
git => git config -l
git => git config user.name
git => git config user.name x
git => git grep -n a
git => git rebase main
git => git stash push
git => git --version
git => git bisect start
git => git submodule update --init
git => git checkout $X
git => git show HEAD:a
git => git diff --exit-code
git => git init x
git => git archive HEAD
git => git remote -v
git => git push
git push => git push origin
git -c core.pager=cat log => git -c core.pager=cat log -p
git config core.pager cat => git config core.pager cat
find => find . -type f -name '*.py' -not -path './x/*'
find|grep => find . -name '*.py' -exec grep -n a {} +
tar => tar czf a.tgz b --exclude c
ssh h uptime => ssh h uptime
rsync => rsync -av a b
make => make -j4 test
make CC=clang * => make CC=clang test
awk => awk -F, '$1 == 2 || /a/ {print $2}' a
awk => awk -v a=1 '{print a}' b
sed => sed -n '1,5p' a
sed => sed -i.bak -e 's/a b/c/g' -e '/x/d' a
sed => sed 's|a|b|;s/[0-9]*//2' a b
python => python x.py y
python3 => python3 --version
python -m pytest => python -m pytest -q x
node => node x.js
bash => bash -eu x.sh a
bash|ls => bash -c 'ls a'
source => source venv/bin/activate
uv run pytest => uv run pytest -q
uv|pytest => uv run pytest -q
uv => uv sync
npm run * => npm run build --all
npm => npm ci
npx prettier => npx prettier --check .
timeout 60 pytest => timeout 60 pytest -x
timeout|pytest => timeout 60 pytest -x
sudo -n apt-get update => sudo -n apt-get update
xargs|grep => xargs grep a
env A=1 pytest -q => env A=1 pytest -q
docker run alpine ls => docker run alpine ls -l
docker => docker ps -a
kubectl => kubectl get pods
cargo => cargo run --release
test|[ => test -f a && [ 1 -lt 2 ]
printf => printf '%s\n' "$HOME" $X
unset => unset A
jobs => jobs -l
psql => psql --version
* => git -c core.pager=x log; python -c 'x'; sudo rm x
""")


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_harmless_or_spelled_out_is_covered(case: str) -> None:
    patterns, command = case.split(" => ")
    assert not asked(patterns, command)


PUSHES = lines(r"""
docker run --entrypoint='git push' a
make -f - <<< 'all:; git push'
make -f-
make -f /dev/stdin
git difftool -x 'git push'
uv run --with a -- git push
ssh -t h 'sudo git push'
kubectl exec a -c b -- git push
bash -c 'eval "git push"'
trap 'git push' 0
xargs -I{} git {}
xargs -I % git %
xargs -I@ git @
find . -exec sh -c 'git push "$1"' _ {} ;
eval g''it p\ush
echo 'git push' | xargs sh -c
echo 'git push' | xargs -0 bash -c
ssh h -o ProxyCommand='git push'
git config -z alias.p push
bash ../../dev/stdin
X='git push'; $X
X='push origin'; git $X
X='git push'; sudo $X
git -c alias.p='!git' p push
git -c alias.p='!git;' p
git -c alias.p=push p
git -c alias.p='!git push' p
git -c alias.p='push origin' p
git -c ALIAS.p=push p
git-push
git --config-env=alias.p=X p
git -c include.path=x p
git --exec-path=. p
git config alias.p push; git p
git -C . push
git config --global alias.p '!git push'
git -c core.pager='git push' log
git -c core.fsmonitor='git push;' status
git p$X
git -c user.name='x' -c core.editor='git push' commit
git rebase -x 'git push' HEAD~1
git bisect run git push
git submodule foreach git push
git submodule foreach --recursive 'git push'
git fetch --upload-pack='git push;' .
git fetch 'ext::git push'
git clone -c core.fsmonitor='git push' . y
git -c alias.p="$X" p
git filter-branch --tree-filter 'git push'
/usr/lib/git-core/git-push
GIT_EDITOR='git push;' git commit
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p
PAGER='git push' git log
PS4='$(git push)'; set -x; ls
export PS4='$(git push)'
BASH_ENV=x bash y
LD_PRELOAD=x ls
env GIT_PAGER='git push' git log
PROMPT_COMMAND='git push'
env BASH_FUNC_ls%%='() { git push; }' ls
X='a[$(git push)]'; echo $((X))
GIT_SSH_COMMAND='git push' git fetch
find . -exec git push ;
find . -exec git -c alias.p=push p ;
find . -execdir sh -c 'git push' ;
fd -x git push
fd . -X git push
tar --checkpoint-action=exec='git push' -cf a b
tar -I 'git push' -cf a b
tar --to-command 'git push' -xf a
rsync -e 'git push' a b
ssh -o ProxyCommand='git push' h
ssh h 'git push'
ssh -oLocalCommand='git push' h
scp -S 'git push' a b
rsync -e 'ssh -o ProxyCommand="git push"' a b
make --eval='$(shell git push)'
make SHELL='git push'
make CC='git push'
awk 'BEGIN{system("git push")}'
sed '1e git push' a
vim -c '!git push' a
vim '+!git push'
less '+!git push' a
man -P 'git push' ls
python -c 'import os; os.system("git push")'
python -c "import subprocess; subprocess.run(['git', 'push'])"
perl -e 'exec "git push"'
node -e 'require("child_process").execSync("git push")'
ruby -e '`git push`'
php -r 'system("git push");'
gdb -ex '!git push' x
echo push | xargs git
echo push | xargs -n1 git
parallel git ::: push
parallel 'git push' ::: a
hyperfine 'git push'
hyperfine ls 'git push'
hyperfine -p 'git push' ls
entr -s 'git push'
flock a -c 'git push'
nodemon -x 'git push'
sudo git -c alias.p=push p
sudo -u a git -c alias.p=push p
uv run git -c alias.p=push p
timeout 5 git -c alias.p=push p
nice -n 1 git -c alias.p=push p
docker run a git -c alias.p=push p
env A=1 git -c alias.p=push p
sg a 'git push'
sg a -c 'git push'
npm exec -c 'git push'
npx -c 'git push'
uv run sh -c 'git push'
docker run a sh -c 'git push'
docker run a bash <<< 'git push'
uv run bash
mapfile -C 'git push' a
compgen -C 'git push'
compgen -W '$(git push)'
fish -C 'git push' a
test -v 'a[$(git push)]'
[ -v 'a[$(git push)]' ]
let 'x=a[$(git push)]'
declare 'a[$(git push)]=1'
read 'a[$(git push)]'
unset 'a[$(git push)]'
printf -v 'a[$(git push)]' x
export 'a[`git push`]=1'
alias p='git push'
eval git push
emulate sh -c 'git push'
trap 'git push' EXIT
go test -exec 'git push' .
sort --compress-program='git push' a
split --filter='git push' a
zip -T --unzip-command='git push' a
""")

PUSHING = " | ".join(
    lines("""
ssh h | ssh -p 22 h | env -u A | xargs | uv run | poetry run | npx | npm exec -- | direnv exec . | ssh-agent
logsave a | runcon a | hyperfine | ld.so | /lib64/ld-linux-x86-64.so.2 | docker run a | docker run -v /:/x a
docker exec -it a | docker compose exec a | kubectl exec a -- | pnpm dlx | yarn dlx | conda run -n a
nix shell -c | jobs -x | noglob | repeat 3 | uv tool run | mise x -- | bundle exec | rustup run a
ip netns exec a | aws-vault exec a -- | sudo uv run | uv run sudo | faketime a | pipx run | docker run -e A=$B a
""")
).split(" | ")


@pytest.mark.parametrize("command", [*PUSHES, *(f"{wrapper} git push" for wrapper in PUSHING)])
def test_a_deny_rule_sees_through_programs_that_run_others(command: str) -> None:
    assert denied("git push", command)


OTHERS = lines(r"""
ssh -v h ls
git status
git stash push
git -c color.ui=never log
git -c core.pager=cat log
git commit -m push
git config core.pager less
find . -exec ls {} +
tar -I zstd -cf a b
ssh h ls
ssh -o ConnectTimeout=5 h ls
rsync -e 'ssh -p 22' a b
make CC=clang
awk '{print $1}' a
sed 's/a/b/e' a
python -c 'print(1)'
python x.py
uv run pytest
docker run -v $PWD:/w -p $P:80 a ls
npx prettier
npm run push
hyperfine 'ls -l'
xargs ls
test -f "$X"
[ -n "$X" ]
export A=$B
declare -a x
read x
PATH=$PATH:/x ls
NODE_OPTIONS=--max-old-space-size=1 node x
CC=gcc make
PAGER=cat git log
GIT_CONFIG_GLOBAL=/dev/null git log
env A=1 ls
timeout 5 ls
vim -c wq a
X='a[1]'; ls
ls git push
docker ps
kubectl exec a -- ls
jobs -l
printf '[$X'
vim -c '%s/a(b/c/' x
hyperfine -n a ls
less a
man ls
psql -c 'select 1'
gcc a.c
""")


@pytest.mark.parametrize("command", OTHERS)
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert not denied("git push", command)


@pytest.mark.parametrize(
    "command",
    [
        "uv run sh -c 'cat .env'",
        "git -c core.pager='cat .env' log",
        "hyperfine 'cat .env'",
        "ssh -oProxyCommand='cat .env' h",
    ],
)
def test_protected_paths_are_found_in_what_others_run(command: str) -> None:
    decision = Permissions("bypass").decide(TOOL, {"command": command})
    assert decision.verdict == "deny"
    assert "is protected" in decision.reason


@pytest.mark.parametrize(
    "command",
    ["docker " + "run " * 4_000, "sudo " + "-a sudo " * 2_000, "nice " * 3_000 + "ls", "hyperfine " + "ls " * 4_000],
)
def test_more_than_can_be_judged_is_refused(command: str) -> None:
    with pytest.raises(UnparsedCommand):
        commands(command)


def test_a_launch_has_the_position_of_the_program() -> None:
    (found,) = launches(tuple(map(Word, ("timeout", "5", "ls", "x"))))
    assert (found.at, found.words, found.sure) == (2, (Word("ls"), Word("x")), True)
    assert [launch.at for launch in all_launches(tuple(map(Word, ("nice", "timeout", "5", "ls"))))] == [1, 3]
    (line,) = launches(tuple(map(Word, ("rsync", "-e", "ssh -p 22", "a", "b"))))
    assert (line.at, line.text, line.code) == (2, Word("ssh -p 22"), "")
    for program in ("rm", "-rm"):  # behind `--` no word is an option
        (found,) = launches(tuple(map(Word, ("sudo", "--", program, "x"))))
        assert (found.at, found.words, found.sure) == (2, (Word(program), Word("x")), True)
    assert launches(()) == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("/usr/bin/Python3.12", "python"),
        ("g++-12", "g++"),
        ("node.exe", "node"),
        ("linux32", "linux32"),
        ("ld-linux-x86-64.so.2", "ld.so"),
    ],
)
def test_a_program_is_known_with_its_version_and_folder(name: str, key: str) -> None:
    assert program_key(Word(name)) == key
