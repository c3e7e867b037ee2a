"""The files that describe the package: they are valid, and agree with each other and the code."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fastem

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPLOY = ROOT / "deploy"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read_yaml(*path):
    return yaml.safe_load(ROOT.joinpath(*path).read_text())


def name_of(requirement):
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower()


# The version -------------------------------------------------------------------------------------


def test_the_version_is_written_in_one_place():
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", fastem.__version__)


def test_files_that_cannot_derive_the_version_have_it():
    assert read_yaml("CITATION.cff")["version"] == fastem.__version__
    assert read_yaml("deploy", "recipe.yaml")["context"]["version"] == fastem.__version__


def test_the_changelog_begins_with_what_is_not_released_and_then_this_version():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == fastem.__version__


# Schemas -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema, paths",
    [
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
        ("vendor.readthedocs", [ROOT / ".readthedocs.yaml"]),
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
    ],
)
def test_files_are_as_their_readers_expect(schema, paths):
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert paths and done.returncode == 0, done.stdout + done.stderr


def test_the_citation_agrees_with_the_project():
    citation = read_yaml("CITATION.cff")
    assert citation["authors"] == PROJECT["authors"]
    assert citation["license"] == PROJECT["license"]
    assert citation["url"] == PROJECT["urls"]["Documentation"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


# Continuous integration --------------------------------------------------------------------------


def steps(workflow, job):
    return read_yaml(".github", "workflows", workflow)["jobs"][job]["steps"]


def commands(workflow, job):
    return [step["run"] for step in steps(workflow, job) if "run" in step]


def test_the_server_runs_what_a_developer_runs():
    assert commands("ci.yml", "everything") == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_files_that_other_systems_test_are_there():
    named = re.findall(r"tests/\S+", " ".join(commands("ci.yml", "quick")))
    assert named and [path for path in named if not (ROOT / path).exists()] == []


def test_every_python_that_is_promised_is_tested():
    promised = [
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    jobs = read_yaml(".github", "workflows", "ci.yml")["jobs"]
    assert jobs["everything"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    systems = {line.split(" :: ")[-1] for line in PROJECT["classifiers"] if "Operating" in line}
    tested = {jobs["everything"]["runs-on"], *jobs["quick"]["strategy"]["matrix"]["os"]}
    runners = {"Linux": "ubuntu-latest", "MacOS": "macos-latest", "Windows": "windows-latest"}
    assert tested == {runners[system] for system in systems}


def test_only_the_job_that_publishes_may_ask_for_an_identity():
    workflow = read_yaml(".github", "workflows", "publish.yml")
    assert workflow["permissions"] == {"contents": "read"}
    asking = [name for name, job in workflow["jobs"].items() if "permissions" in job]
    assert asking == ["publish"]
    assert workflow["jobs"]["publish"]["needs"] == "build"
    # YAML 1.1 reads ``on`` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}


# Read the Docs, conda, Docker --------------------------------------------------------------------


def test_the_documents_are_built_with_an_extra_that_exists():
    read_the_docs = read_yaml(".readthedocs.yaml")
    assert (ROOT / read_the_docs["sphinx"]["configuration"]).is_file()
    (install,) = read_the_docs["python"]["install"]
    assert set(install["extra_requirements"]) <= set(PROJECT["optional-dependencies"])


def test_the_recipe_agrees_with_the_project():
    recipe = read_yaml("deploy", "recipe.yaml")
    values = recipe["context"]
    values["PYTHON"] = "python"

    def filled(text):
        return re.sub(r"\$\{\{ (\w+) \}\}", lambda found: values[found[1]], text)

    run = [filled(line).replace(" ", "") for line in recipe["requirements"]["run"]]
    assert run == [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    host = [filled(line).replace(" ", "") for line in recipe["requirements"]["host"]]
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert host == [f"python{values['python_min']}.*", "pip", *system["requires"]]
    points = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == points
    about = recipe["about"]
    assert about["summary"] == PROJECT["description"]
    assert about["license"] == PROJECT["license"]
    assert [about["license_file"]] == PROJECT["license-files"]
    assert about["documentation"] == PROJECT["urls"]["Documentation"]
    assert (DEPLOY / recipe["source"]["path"]).resolve() == ROOT


def instructions():
    """What the Dockerfile says, as pairs of an instruction and its words."""
    text = (DEPLOY / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_the_image_names_only_what_exists():
    lines = instructions()
    run = " ".join(words for name, words in lines if name == "RUN")
    (extra,) = re.findall(r'"/source\[(\w+)\]"', run)
    assert extra in PROJECT["optional-dependencies"]
    assert ("COPY", ". /source") in lines
    # The user who runs the worker compiles the kernels, into a folder of their own.
    settings = dict(
        pair.split("=", 1) for name, words in lines if name == "ENV" for pair in shlex.split(words)
    )
    assert f"--owner=worker {settings['NUMBA_CACHE_DIR']}" in run
    assert lines.index(("USER", "worker")) < lines.index(("RUN", "fastem warmup"))
    assert [words for name, words in lines if name == "USER"] == ["worker"]
    virtual = re.search(r"-m venv (\S+)", run)[1]
    assert settings["PATH"] == f"{virtual}/bin:$PATH"
    assert ("COPY", f"--from=build {virtual} {virtual}") in lines
    assert name_of(dict(lines)["ARG"].replace("=", " ")) == "python"
    python = dict(lines)["ARG"].split("=")[1]
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_the_command_of_the_image_is_there():
    pytest.importorskip("distributed")
    command = ast.literal_eval(dict(instructions())["ENTRYPOINT"])
    assert command == ["dask", "worker"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "--nthreads" in done.stdout, done.stderr


def test_the_image_gets_what_the_wheel_is_made_of():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines and [path for path in kept if not (ROOT / path).exists()] == []
    assert {"fastem", "kernels", "pyproject.toml", "setup.py", "README.md"} <= kept
    assert {*PROJECT["license-files"]} <= kept


# What costs nothing to those who do not use it ---------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import fastem",
        "import fastem.mixture, fastem.hmm, fastem.kalman, fastem.dirichlet, fastem.vhmm",
        "import fastem; fastem.GaussianMixture(2).fit([[0.0], [0.1], [4.0], [4.2]])",
        "import fastem; fastem.GaussianHMM(1).fit([[0.0], [0.1], [4.0], [4.2]])",
    ],
)
def test_what_is_not_used_is_not_imported(code):
    unused = (
        "fastem.bench", "fastem.experiments", "fastem.cli", "matplotlib", "dask", "distributed",
        "pandas", "tqdm", "hmmlearn", "pykalman", "river",
    )  # fmt: skip
    # What scikit-learn imports by itself (pandas, where there is one) is not fastem's to avoid.
    code = f"""
import sys, sklearn.mixture
unused = set({unused!r}) - set(sys.modules)
{code}
print(*unused & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
