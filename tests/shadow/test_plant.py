"""Planted faults are found, and nothing is found in the kernels they are planted in."""
import plant


def test_planted_faults_in_the_recordings(tmp_path, capsys):
    share, dirty = plant.run(1, 120, None, 0, tmp_path)
    assert dirty == []
    assert share >= plant.SHARE, capsys.readouterr().out
